import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type KnownClusters, resolveCluster } from './addresses.ts';

const LAB = { address: '10.1.0.0', prefix: 16, family: 'ipv4' } as const;

const known = (changes: Partial<KnownClusters> = {}): KnownClusters => ({
  registered: new Map(),
  networks: [],
  isOwn: () => false,
  ...changes,
});

const named = (endpoint: string, ssl_verify = true) => ({ b: { endpoint, ssl_verify } });

test('what the operator says counts before what the definition says', () => {
  const registered = new Map([
    [
      'b',
      { endpoint: 'http://10.9.9.9:8080', store: undefined, sslVerify: false, ca: 'PEM', kind: 'upstream' as const },
    ],
  ]);
  assert.deepEqual(resolveCluster('b', named('https://evil.example'), known({ registered })), {
    address: {
      clusterId: 'b',
      endpoint: 'http://10.9.9.9:8080',
      verify: false,
      ca: 'PEM',
      guarded: false,
      kind: 'upstream',
    },
  });
});

test('a cluster of the definition is dialled with care', () => {
  const address = { clusterId: 'b', endpoint: 'https://b.example/x', verify: true, guarded: true, kind: 'oscar' };
  assert.deepEqual(resolveCluster('b', named('https://B.example:443/x/'), known()), { address });
  const trusting = resolveCluster('b', named('https://b.example/x', false), known());
  assert.deepEqual(trusting, { address: { ...address, verify: false } });
});

for (const clusters of [undefined, {}, named('https://b.example')]) {
  test(`addresses: a cluster that is not configured is unknown, with ${JSON.stringify(clusters)}`, () => {
    for (const id of ['x', 'constructor', '__proto__']) {
      assert.deepEqual(resolveCluster(id, clusters, known()), {
        problem: `cluster "${id}" is unknown: name it under clusters, or ask the operator to register it`,
        unknown: true,
      });
    }
  });
}

const refused: [string, Partial<KnownClusters>, RegExp][] = [
  ['b.example', {}, /must be an http or https URL/],
  ['ftp://b.example', {}, /must be an http or https URL/],
  ['', {}, /must be an http or https URL/],
  ['https://u:hush@b.example', {}, /must not hold a user or password/],
  ['https://b.example?', {}, /must end before any/],
  ['https://b.example/#', {}, /must end before any/],
  ['http://b.example', {}, /must begin with https/],
  ['http://1.1.1.1', { networks: [LAB] }, /must begin with https/],
  ['https://10.2.0.1', { networks: [LAB] }, /10\.2\.0\.1 is not public: ask the operator/],
  ['https://127.0.0.1', {}, /not public/],
  ['https://2130706433', {}, /not public/],
  ['https://[::ffff:10.2.0.1]', { networks: [LAB] }, /not public/],
];
for (const [endpoint, changes, problem] of refused) {
  test(`a definition may not name ${JSON.stringify(endpoint)}`, () => {
    const resolved = resolveCluster('b', named(endpoint), known(changes));
    assert.ok('problem' in resolved);
    assert.match(resolved.problem, /^clusters\.b\.endpoint: /);
    assert.match(resolved.problem, problem);
    assert.doesNotMatch(resolved.problem, /hush/);
  });
}

const accepted: [string, Partial<KnownClusters>][] = [
  ['https://1.1.1.1', {}],
  ['http://10.1.2.3:8080', { networks: [LAB] }],
  ['http://[::ffff:10.1.2.3]', { networks: [LAB] }],
  // Where it leads is looked at when it is dialled.
  ['http://b.lab', { networks: [LAB] }],
  ['http://127.0.0.1:8080', { isOwn: (endpoint) => endpoint === 'http://127.0.0.1:8080' }],
];
for (const [endpoint, changes] of accepted) {
  test(`a definition may name ${endpoint}`, () => {
    assert.ok('address' in resolveCluster('b', named(endpoint), known(changes)));
  });
}
