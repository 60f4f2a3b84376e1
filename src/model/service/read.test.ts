import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readDefinition } from './read.ts';

const least = { name: 'demo', image: 'ubuntu', script: 'echo' };
const read = (more: Record<string, unknown> = {}) => readDefinition({ ...least, ...more });
const define = (more: Record<string, unknown> = {}) => read(more).definition;
const member = { type: 'oscar', cluster_id: 'b', service_name: 'demo-b' };

describe('read: accepted definitions', () => {
  test('required keys only: all others have their default or zero value', () => {
    const definition = define();
    assert.equal(definition.memory, '256Mi');
    assert.equal(definition.cpu, '0.2');
    assert.equal(definition.log_level, 'INFO');
    assert.equal(definition.visibility, 'private');
    assert.deepEqual(definition.input, []);
    assert.deepEqual(definition.environment, { variables: {}, secrets: {} });
    assert.deepEqual(definition.mount, { storage_provider: '', path: '' });
    assert.equal('federation' in definition, false);
  });

  test('keys in any letter case; the last of two spellings counts', () => {
    const { definition, secrets } = readDefinition({
      NAME: 'demo',
      image: 'ubuntu',
      Script: 'echo',
      Image: 'debian',
      environment: { Variables: { A: '1' }, SECRETS: { B: '2' } },
    });
    assert.equal(definition.name, 'demo');
    assert.equal(definition.image, 'debian');
    assert.deepEqual(definition.environment, { variables: { A: '1' }, secrets: { B: '' } });
    assert.equal(secrets.environment['B']?.reveal(), '2');
  });

  test('unknown keys and those of older versions are ignored', () => {
    const old = {
      replicas: [],
      delegation: 'static',
      rescheduler_threshold: '5',
      image_rules: [],
      unknown: { a: [1] },
    };
    assert.deepEqual(define(old), define());
  });

  test('null is the same as absent', () => {
    const nothing = { memory: null, input: null, environment: null, expose: null, federation: null, labels: null };
    assert.deepEqual(define(nothing), define());
  });

  test('numbers for cpu and memory', () => {
    assert.equal(define({ cpu: 1 }).cpu, '1');
    assert.equal(define({ cpu: 0.5 }).cpu, '0.5');
    assert.equal(define({ memory: 268435456 }).memory, '268435456');
  });

  test('a port as a number or a list, and 0 for none', () => {
    assert.deepEqual(define({ expose: { api_port: 80 } }).expose.api_port, [80]);
    assert.deepEqual(define({ expose: { api_port: [80, 81] } }).expose.api_port, [80, 81]);
    assert.equal('nodePort' in define({ expose: { nodePort: 0 } }).expose, false);
  });

  test('any line endings in the script become LF', () => {
    assert.equal(define({ script: 'a\r\nb\rc\n' }).script, 'a\nb\nc\n');
  });

  test('allowed users are trimmed, blanks and repetitions dropped', () => {
    assert.deepEqual(define({ allowed_users: [' a ', '', '  ', 'b', 'a'] }).allowed_users, ['a', 'b']);
  });

  test('storage paths are normalised, the provider stays as written', () => {
    const definition = define({
      input: [{ storage_provider: 'MinIO', path: ' /in/ ' }],
      output: [{ storage_provider: 'webdav.w', path: '/results', suffix: [], prefix: ['p'] }],
    });
    assert.deepEqual(definition.input, [{ storage_provider: 'MinIO', path: 'demo/in' }]);
    assert.deepEqual(definition.output, [{ storage_provider: 'webdav.w', path: 'results', prefix: ['p'] }]);
  });

  test('the store of the cluster is never taken from a body (F47)', () => {
    const minio = { default: { endpoint: 'http://evil', access_key: 'AK', secret_key: 'SK' } };
    const { definition, secrets } = read({ storage_providers: { minio } });
    assert.equal(definition.storage_providers, undefined);
    assert.deepEqual(secrets.credentials, {});
  });

  test('what the manager decides is ignored: owner, namespace, token, reserved labels and annotations (F33, F43)', () => {
    const claimed = {
      owner: 'root',
      namespace: 'kube-system',
      token: 'f'.repeat(64),
      bucket_list: ['others'],
      volume_status: { enabled: true },
      labels: { owner_name: 'x', oscar_service: 'x', 'oscar.grycap/job-owner': 'x', vo: 'x', uid: 'x' },
      annotations: { 'oscar.grycap/federation-worker': 'true', 'oscar.grycap/origin-cluster': 'x' },
    };
    assert.deepEqual(define(claimed), define());
  });

  test('names like __proto__ are ordinary keys', () => {
    const body = JSON.parse(
      '{"name":"demo","image":"ubuntu","script":"echo","__proto__":{"cpu":"9"},"labels":{"__proto__":"x"}}',
    );
    assert.equal(readProblem(body), 'labels.__proto__');
    const variables = JSON.parse('{"__proto__":"x","constructor":"y"}');
    const { environment } = define({ environment: { variables } });
    assert.deepEqual(Object.keys(environment.variables), ['__proto__', 'constructor']);
    assert.equal(({} as Record<string, unknown>)['x'], undefined);
  });

  test('a federation gets its group from the service and keeps its topology as written', () => {
    assert.deepEqual(define({ federation: {} }).federation, { group_id: 'demo', topology: 'none' });
    assert.deepEqual(define({ federation: { topology: 'STAR', delegation: ' Random ' } }).federation, {
      group_id: 'demo',
      topology: 'STAR',
      delegation: 'random',
    });
  });

  test('a delegation with weights is kept as a string and weights', () => {
    const federation = { topology: 'tree', delegation: { mode: 'random', weights: { a: 1, b: 2.5 } } };
    assert.deepEqual(define({ federation }).federation, {
      group_id: 'demo',
      topology: 'tree',
      delegation: 'random',
      weights: { a: 1, b: 2.5 },
    });
  });

  test('a priority of zero for this cluster is kept', () => {
    const federation = { delegate_when: 'always', deployment: 'best-effort', self: { priority: 0 } };
    assert.deepEqual(define({ federation }).federation, {
      group_id: 'demo',
      topology: 'none',
      deployment: 'best-effort',
      delegate_when: 'always',
      self: { priority: 0 },
    });
  });

  test('a member has all its keys; an omitted ssl_verify of an endpoint means true', () => {
    const members = [member, { type: 'Endpoint', url: 'https://x.example/hook' }];
    assert.deepEqual(define({ federation: { members } }).federation?.members, [
      { type: 'oscar', cluster_id: 'b', service_name: 'demo-b', url: '', ssl_verify: false, priority: 0, headers: {} },
      {
        type: 'endpoint',
        cluster_id: '',
        service_name: '',
        url: 'https://x.example/hook',
        ssl_verify: true,
        priority: 0,
        headers: {},
      },
    ]);
  });

  test('an omitted ssl_verify of a cluster means true (F30)', () => {
    const clusters = { b: { endpoint: 'https://b.example' }, c: { endpoint: 'https://c.example', ssl_verify: false } };
    const definition = define({ clusters });
    assert.equal(definition.clusters?.['b']?.ssl_verify, true);
    assert.equal(definition.clusters?.['c']?.ssl_verify, false);
  });
});

describe('read: a definition is rejected, with the path of the problem, for', () => {
  const cases: [string, Record<string, unknown>, string][] = [
    ['no name', { name: '' }, 'name'],
    ['a name in upper case', { name: 'Demo' }, 'name'],
    ['a name with ../', { name: '../etc' }, 'name'],
    ['a name of 40 characters', { name: 'a'.repeat(40) }, 'name'],
    ['a name of 64 characters', { name: 'a'.repeat(64) }, 'name'],
    ['a unicode name', { name: 'dëmo' }, 'name'],
    ['a name that ends with a hyphen', { name: 'demo-' }, 'name'],
    ['a name with a dot', { name: 'de.mo' }, 'name'],
    ['a name that is a number', { name: 5 }, 'name'],
    ['no image', { image: '' }, 'image'],
    ['an image with a blank', { image: 'a b' }, 'image'],
    ['no script', { script: '' }, 'script'],
    ['a script of blanks', { script: ' \n' }, 'script'],
    ['a script with a NUL', { script: 'a\0b' }, 'script'],
    ['half a surrogate pair', { script: 'a\ud800' }, 'script'],
    ['cpu that is not a quantity', { cpu: 'abc' }, 'cpu'],
    ['negative cpu', { cpu: '-1' }, 'cpu'],
    ['zero cpu', { cpu: '0' }, 'cpu'],
    ['absurd cpu', { cpu: '1e30' }, 'cpu'],
    ['cpu as a list', { cpu: [] }, 'cpu'],
    ['negative memory', { memory: '-1Gi' }, 'memory'],
    ['absurd memory', { memory: '999999Ei' }, 'memory'],
    ['memory that was meant to be Mi', { memory: 256 }, 'memory'],
    ['memory in unknown units', { memory: '1GB' }, 'memory'],
    ['a request for disk that is not a quantity', { ephemeral_storage_request: 'lots' }, 'ephemeral_storage_request'],
    ['a fraction of an instance', { synchronous: { min_scale: 1.5 } }, 'synchronous.min_scale'],
    ['a flag as a string', { enable_gpu: 'true' }, 'enable_gpu'],
    ['input as an object', { input: {} }, 'input'],
    ['an empty path', { input: [{ storage_provider: 'minio', path: ' / ' }] }, 'input[0].path'],
    ['a missing path', { output: [{ storage_provider: 'minio' }] }, 'output[0].path'],
    [
      'an unknown provider type',
      { output: [{ storage_provider: 'gdrive', path: 'a/b' }] },
      'output[0].storage_provider',
    ],
    ['a missing provider', { input: [{ path: 'a/b' }] }, 'input[0].storage_provider'],
    ['an invalid bucket name', { input: [{ storage_provider: 'minio', path: 'My_Bucket/in' }] }, 'input[0].path'],
    ['a bucket of the manager', { output: [{ storage_provider: 'minio', path: 'oscar-staging/x' }] }, 'output[0].path'],
    ['a path with ..', { input: [{ storage_provider: 'minio', path: 'abc/../x' }] }, 'input[0].path'],
    ['an unknown visibility (S11)', { visibility: 'Private' }, 'visibility'],
    ['an unknown isolation level', { isolation_level: 'GROUP' }, 'isolation_level'],
    ['an unknown log level', { log_level: 'loud' }, 'log_level'],
    ['an unknown topology', { federation: { topology: 'ring' } }, 'federation.topology'],
    ['an unknown delegation', { federation: { delegation: 'cheapest' } }, 'federation.delegation'],
    ['an unknown deployment', { federation: { deployment: 'maybe' } }, 'federation.deployment'],
    ['an unknown delegate_when', { federation: { delegate_when: 'never' } }, 'federation.delegate_when'],
    ['an unknown rule for outputs', { federation: { outputs: 'keep' } }, 'federation.outputs'],
    [
      'protected outputs at another provider',
      { federation: { outputs: 'protect' }, output: [{ storage_provider: 's3.archive', path: 'archive/out' }] },
      'federation.outputs',
    ],
    ['a shared refresh token', { federation: { token_sharing: 'copy' } }, 'federation.token_sharing'],
    ['the same member twice', { federation: { members: [member, member] } }, 'federation.members[1]'],
    [
      'a member without a cluster',
      { federation: { members: [{ service_name: 'x' }] } },
      'federation.members[0].cluster_id',
    ],
    [
      'a member whose service name is a path',
      { federation: { members: [{ ...member, service_name: '../x' }] } },
      'federation.members[0].service_name',
    ],
    [
      'a member of an unknown type',
      { federation: { members: [{ ...member, type: 'ftp' }] } },
      'federation.members[0].type',
    ],
    ['an endpoint without a URL', { federation: { members: [{ type: 'endpoint' }] } }, 'federation.members[0].url'],
    [
      'a negative priority',
      { federation: { members: [{ ...member, priority: -1 }] } },
      'federation.members[0].priority',
    ],
    ['a negative threshold', { federation: { rescheduler_threshold: -1 } }, 'federation.rescheduler_threshold'],
    ['a negative priority of this cluster', { federation: { self: { priority: -1 } } }, 'federation.self.priority'],
    ['a negative weight of this cluster', { federation: { self: { weight: -1 } } }, 'federation.self.weight'],
    ['an illegal label', { labels: { 'a b': 'c' } }, 'labels.a b'],
    ['an illegal label value', { labels: { a: 'b c' } }, 'labels.a'],
    ['an illegal annotation', { annotations: { '-': 'x' } }, 'annotations.-'],
    ['an illegal variable', { environment: { variables: { 'A=B': '1' } } }, 'environment.variables.A=B'],
    ['an illegal secret', { environment: { secrets: { '1A': '1' } } }, 'environment.secrets.1A'],
    ['a variable that is a number', { environment: { variables: { A: 1 } } }, 'environment.variables.A'],
    ['a cluster id that is a path', { clusters: { '../x': {} } }, 'clusters.../x'],
  ];
  for (const [name, body, path] of cases) {
    test(name, () => assert.equal(readProblem({ ...least, ...body }), path));
  }

  for (const body of [[], null, 'text', 5, true]) {
    test(`a body that is ${JSON.stringify(body)}`, () => {
      assert.throws(() => readDefinition(body), { code: 'invalid-definition', message: /must be a JSON object/ });
    });
  }

  test('several reasons, and all problems are reported', () => {
    assert.throws(
      () => readDefinition({ name: 'A', cpu: 'x', visibility: 'y' }),
      (error: Error) => {
        assert.deepEqual(
          error.message.split('\n').map((line) => line.split(':')[0]),
          ['name', 'image', 'script', 'cpu', 'visibility'],
        );
        return true;
      },
    );
  });

  test('thousands of problems, of which the first are reported', () => {
    const input = Array.from({ length: 5000 }, () => ({ storage_provider: 'minio', path: '' }));
    assert.throws(
      () => read({ input }),
      (error: Error) => error.message.split('\n').length === 21,
    );
  });
});

/** The path of the first problem. */
function readProblem(body: unknown): string | undefined {
  try {
    readDefinition(body);
    return undefined;
  } catch (error) {
    return (error as Error).message.match(/^(.*?): /)?.[1];
  }
}
