import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConfigError, IGNORED_NAMES, readConfig } from './read-config.ts';
import { SETTING_GROUPS, SETTINGS } from './settings.ts';

const noFiles = (name: string) => assert.fail(`no such file: ${name}`);

/** Reads with the text as the file that `OSCAR_CONFIG` names. */
function readFile(text: string, environment: Record<string, string> = {}) {
  return readConfig({ OSCAR_CONFIG: 'oscar.yaml', ...environment }, (name) =>
    name === 'oscar.yaml' ? text : noFiles(name),
  );
}

function problemsOf(read: () => unknown): readonly string[] {
  try {
    read();
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
  return [];
}

const KUBERNETES = {
  OSCAR_BACKEND: 'kubernetes',
  OSCAR_PASSWORD: 'x',
  OSCAR_STAGING_IMAGE: 'x',
  MINIO_ACCESS_KEY: 'x',
  MINIO_SECRET_KEY: 'x',
};

test('config: no setting is required on a laptop', () => {
  const config = readConfig({}, noFiles);
  assert.equal(config.backend, 'local');
  assert.equal(config.clusterId, 'oscar-cluster');
  assert.deepEqual(config.listen, { host: '127.0.0.1', port: 8080 });
  assert.equal(config.minioEndpoint, 'http://127.0.0.1:9000');
  assert.equal(config.username, 'oscar');
  assert.equal(config.password, undefined);
  assert.deepEqual(config.oidcGroups, []);
  assert.equal(config.maxEventBytes, 8 * 1024 * 1024);
  assert.equal(config.reschedulerEnable, true);
});

test('config: defaults depend on the backend', () => {
  const config = readConfig(KUBERNETES, noFiles);
  assert.deepEqual(config.listen, { host: '0.0.0.0', port: 8080 });
  assert.equal(config.minioEndpoint, 'https://minio-service.minio:9000');
});

test('config: defaults use the parsed value of other settings', () => {
  const config = readConfig({ OSCAR_STORE_PORT: '9100.0', OSCAR_SERVICE_PORT: '8180.0' }, noFiles);
  assert.equal(config.minioEndpoint, 'http://127.0.0.1:9100');
  assert.deepEqual(config.listen, { host: '127.0.0.1', port: 8180 });
});

test('config: an empty variable counts as not set', () => {
  const config = readConfig(
    { OSCAR_SERVICE_PORT: '', OSCAR_PASSWORD: '', OIDC_GROUPS: ' ', OSCAR_CONFIG: '' },
    noFiles,
  );
  assert.equal(config.servicePort, 8080);
  assert.equal(config.password, undefined);
});

test('config: the environment takes precedence over the file', () => {
  const text = `
    OSCAR_SERVICE_PORT: 8090
    OSCAR_PASSWORD: 0123
    OIDC_ENABLE: true
    OIDC_ISSUERS: [https://a.example.org, https://b.example.org]
    OIDC_ISSUER_ALIASES: [bb=https://b.example.org]
    OSCAR_CLUSTERS:
      b: { endpoint: https://b.example.org }
    RESCHEDULER_INTERVAL: 30
  `;
  const config = readFile(text, { OSCAR_SERVICE_PORT: '8091', RESCHEDULER_INTERVAL: '' });
  assert.equal(config.servicePort, 8091);
  assert.equal(config.password?.reveal(), '0123');
  assert.equal(config.oidcEnable, true);
  assert.deepEqual(config.oidcIssuers, ['https://a.example.org', 'https://b.example.org']);
  assert.deepEqual(config.oidcIssuerAliases, [{ alias: 'bb', issuer: 'https://b.example.org' }]);
  assert.equal(config.clusters.get('b')?.endpoint, 'https://b.example.org');
  assert.equal(config.reschedulerIntervalSeconds, 30);
});

test('config: all problems are in one message, one line each', () => {
  const environment = {
    OSCAR_BACKEND: 'docker',
    OSCAR_STORE_PORT: '70000',
    OIDC_ENABLE: '1',
    OSCAR_CONFIG: 'oscar.yaml',
  };
  const file = 'OSCAR_LISTN: 127.0.0.1\nRESCHEDULER_INTERVAL: soon\n';
  assert.throws(() => readConfig(environment, () => file), {
    name: 'ConfigError',
    code: 'invalid-config',
    message: [
      'the configuration has 5 problems:',
      '  oscar.yaml, line 1, column 1: OSCAR_LISTN is not a setting, did you mean OSCAR_LISTEN?',
      '  OSCAR_BACKEND is "docker"; accepted is `local` or `kubernetes`',
      '  OSCAR_STORE_PORT is "70000"; accepted is a port, 1 to 65535; 0 is any free one',
      '  oscar.yaml, line 2, column 1: RESCHEDULER_INTERVAL is "soon"; accepted is seconds, a whole number above 0',
      '  OIDC_ISSUERS is missing; with OIDC_ENABLE=true at least one issuer is required',
    ].join('\n'),
  });
});

test('config: OSCAR_MAX_MEMBERS above the limit is rejected at start', () => {
  assert.equal(readConfig({ OSCAR_MAX_MEMBERS: '1000' }, noFiles).maxMembers, 1_000);
  assert.throws(() => readConfig({ OSCAR_MAX_MEMBERS: '1001' }, noFiles), {
    message: /OSCAR_MAX_MEMBERS is "1001"; accepted is a whole number, 1 to 1000/,
  });
});

test('config: shares of other clusters are read, and wrong ones are rejected at start', () => {
  const read = (settings: Record<string, string>) => readConfig(settings, noFiles);
  assert.equal(read({}).hostedShare, 50);
  const weights = [
    { clusterId: 'cluster-a', weight: 3 },
    { clusterId: 'cluster-b', weight: 0 },
  ];
  assert.deepEqual(read({ OSCAR_ORIGIN_WEIGHTS: 'cluster-a=3,cluster-b=0' }).originWeights, weights);
  assert.throws(() => read({ OSCAR_HOSTED_SHARE: '101' }), { message: /OSCAR_HOSTED_SHARE is "101"; .*0 to 100/ });
  for (const wrong of ['cluster-a', 'cluster-a=-1', 'cluster-a=1001', '=3', 'Cluster A=3']) {
    assert.throws(() => read({ OSCAR_ORIGIN_WEIGHTS: wrong }), { message: /OSCAR_ORIGIN_WEIGHTS/ }, wrong);
  }
});

test('config: settings of the Go manager are ignored', () => {
  const text = IGNORED_NAMES.map((name) => `${name}: whatever\n`).join('');
  assert.deepEqual(readFile(text), readConfig({}, noFiles));
});

test('config: an unreadable file is reported, and no missing settings', () => {
  assert.deepEqual(
    problemsOf(() => readConfig({ OSCAR_BACKEND: 'kubernetes', OSCAR_CONFIG: 'none.yaml' }, noFiles)),
    ['OSCAR_CONFIG is "none.yaml", a file that cannot be read: no such file: none.yaml'],
  );
  assert.deepEqual(
    problemsOf(() => readFile('A: 1\n\tB: 2\n', { TTL_JOB: 'x' })),
    [
      'OSCAR_CONFIG is "oscar.yaml", which is not YAML, line 2, column 1: Tabs are not allowed as indentation',
      'TTL_JOB is "x"; accepted is seconds, a whole number',
    ],
  );
  assert.deepEqual(
    problemsOf(() => readFile('- A')),
    ['OSCAR_CONFIG is "oscar.yaml", which is not a map'],
  );
});

test('config: no problem shows a secret', () => {
  const files = ['OSCAR_PASSWORD: [hunter2]', '{OSCAR_PASSWORD:hunter2}', 'MINIO_SECRET_KEY: {a: hunter2}', 'hunter2'];
  for (const text of files) {
    const problems = problemsOf(() => readFile(text));
    assert.notDeepEqual(problems, []);
    assert.doesNotMatch(problems.join('\n'), /hunter2/);
  }
});

const checks: { name: string; set: Record<string, string>; says: RegExp | undefined }[] = [
  {
    name: 'Kubernetes needs a password',
    set: { ...KUBERNETES, OSCAR_PASSWORD: '' },
    says: /^OSCAR_PASSWORD is missing; it is required with OSCAR_BACKEND=kubernetes$/,
  },
  {
    name: 'Kubernetes needs the keys of its store',
    set: { ...KUBERNETES, MINIO_SECRET_KEY: '' },
    says: /^MINIO_SECRET_KEY is missing; it is required for the store at https:\/\/minio-service\.minio:9000$/,
  },
  {
    name: 'Kubernetes needs the image that moves the files of jobs',
    set: { ...KUBERNETES, OSCAR_STAGING_IMAGE: '' },
    says: /^OSCAR_STAGING_IMAGE is missing; with OSCAR_BACKEND=kubernetes it is the image of this manager/,
  },
  {
    name: 'without a store the staging image is not required',
    set: { ...KUBERNETES, OSCAR_STAGING_IMAGE: '', OSCAR_EXTERNAL_STORE: 'none' },
    says: undefined,
  },
  {
    name: 'an external store needs keys on a laptop too',
    set: { MINIO_ENDPOINT: 'https://minio.example.org', MINIO_SECRET_KEY: 'x' },
    says: /^MINIO_ACCESS_KEY is missing; it is required for the store at https:\/\/minio\.example\.org$/,
  },
  {
    name: 'one key without the other is rejected',
    set: { MINIO_SECRET_KEY: 'x' },
    says: /^MINIO_ACCESS_KEY and MINIO_SECRET_KEY belong together/,
  },
  { name: 'both keys may be set', set: { MINIO_ACCESS_KEY: 'x', MINIO_SECRET_KEY: 'x' }, says: undefined },
  {
    name: 'OIDC needs an issuer',
    set: { OIDC_ENABLE: 'true', OIDC_ISSUERS: ',' },
    says: /^OIDC_ISSUERS is missing; with OIDC_ENABLE=true/,
  },
  {
    name: 'a client secret needs a client id',
    set: { OIDC_CLIENT_SECRET: 'x' },
    says: /^OIDC_CLIENT_ID is missing; OIDC_CLIENT_SECRET/,
  },
  {
    name: 'issuers may be set while OIDC is off',
    set: { OIDC_ISSUERS: 'https://a.example.org' },
    says: undefined,
  },
  {
    name: 'a second issuer needs an alias',
    set: { OIDC_ISSUERS: 'https://a.example.org,https://b.example.org' },
    says: /^OIDC_ISSUERS has more than one issuer, .*OIDC_ISSUER_ALIASES=<alias>=https:\/\/b\.example\.org, or, only if/,
  },
  {
    name: 'a second issuer may be declared equal',
    set: { OIDC_ISSUERS: 'https://a.example.org,https://b.example.org', OIDC_EQUAL_ISSUERS: 'https://b.example.org' },
    says: undefined,
  },
  {
    name: 'ID tokens are accepted for an audience only',
    set: { OIDC_ISSUERS: 'https://dex.example.org', OIDC_ID_TOKEN_ISSUERS: 'https://dex.example.org' },
    says: /^OIDC_AUDIENCE is missing; with OIDC_ID_TOKEN_ISSUERS/,
  },
  {
    name: 'ID tokens are accepted of an issuer that is accepted',
    set: { OIDC_ISSUERS: 'https://a.example.org', OIDC_ID_TOKEN_ISSUERS: 'https://b.example.org', OIDC_AUDIENCE: 'x' },
    says: /^OIDC_ISSUERS does not contain https:\/\/b\.example\.org/,
  },
  {
    name: 'an alias is for an issuer that is accepted',
    set: { OIDC_ISSUERS: 'https://a.example.org', OIDC_ISSUER_ALIASES: 'bb=https://b.example.org' },
    says: /^OIDC_ISSUERS does not contain https:\/\/b\.example\.org/,
  },
  {
    name: 'the first issuer has no alias',
    set: { OIDC_ISSUERS: 'https://a.example.org', OIDC_ISSUER_ALIASES: 'aa=https://a.example.org' },
    says: /^OIDC_ISSUER_ALIASES and OIDC_EQUAL_ISSUERS are for the issuers after the first/,
  },
  {
    name: 'an issuer is aliased or equal, not both',
    set: {
      OIDC_ISSUERS: 'https://a.example.org,https://b.example.org',
      OIDC_ISSUER_ALIASES: 'bb=https://b.example.org',
      OIDC_EQUAL_ISSUERS: 'https://b.example.org',
    },
    says: /name https:\/\/b\.example\.org more than once/,
  },
  {
    name: 'two issuers cannot have one alias',
    set: {
      OIDC_ISSUERS: 'https://a.example.org,https://b.example.org,https://c.example.org',
      OIDC_ISSUER_ALIASES: 'bb=https://b.example.org,bb=https://c.example.org',
    },
    says: /^OIDC_ISSUER_ALIASES gives the alias "bb" to two issuers/,
  },
  {
    name: 'an alias has a form',
    set: {
      OIDC_ISSUERS: 'https://a.example.org,https://b.example.org',
      OIDC_ISSUER_ALIASES: 'B~=https://b.example.org',
    },
    says: /^OIDC_ISSUER_ALIASES contains "B~=https/,
  },
  {
    name: 'manager and store cannot share a port',
    set: { OSCAR_SERVICE_PORT: '9000' },
    says: /^OSCAR_STORE_PORT is 9000, the port on which the manager itself listens/,
  },
  {
    name: 'the port of a store that is not started may be used',
    set: { ...KUBERNETES, OSCAR_SERVICE_PORT: '9000' },
    says: undefined,
  },
  {
    name: 'listening on a public address with the process runtime is rejected',
    set: { OSCAR_LISTEN: '0.0.0.0' },
    says: /^OSCAR_LISTEN is "0\.0\.0\.0", which other machines .* run as processes .* OSCAR_LOCAL_ALLOW_REMOTE=true/,
  },
  {
    name: 'OSCAR_LOCAL_ALLOW_REMOTE allows a public address with the process runtime',
    set: { OSCAR_LISTEN: '[::]:8081', OSCAR_LOCAL_ALLOW_REMOTE: 'true' },
    says: undefined,
  },
  { name: 'localhost is a loopback address', set: { OSCAR_LISTEN: 'localhost:8081' }, says: undefined },
  { name: 'Knative is accepted on Kubernetes', set: { ...KUBERNETES, SERVERLESS_BACKEND: 'knative' }, says: undefined },
  {
    name: 'Knative is rejected with the local backend',
    set: { SERVERLESS_BACKEND: 'knative' },
    says: /^SERVERLESS_BACKEND is "knative", which needs OSCAR_BACKEND=kubernetes$/,
  },
  {
    name: 'OpenFaaS is rejected',
    set: { ...KUBERNETES, SERVERLESS_BACKEND: 'openfaas' },
    says: /^SERVERLESS_BACKEND is "openfaas"; accepted is `knative`, or empty; OpenFaaS is not supported$/,
  },
  {
    name: 'Kueue is rejected with the local backend',
    set: { KUEUE_ENABLE: 'True' },
    says: /^KUEUE_ENABLE is true, which needs OSCAR_BACKEND=kubernetes$/,
  },
  { name: 'Kueue is accepted on Kubernetes', set: { ...KUBERNETES, KUEUE_ENABLE: 'true' }, says: undefined },
  {
    name: 'YuniKorn is rejected',
    set: { YUNIKORN_ENABLE: 'True' },
    says: /^YUNIKORN_ENABLE is true, but that is not supported by this manager yet/,
  },
];
for (const { name, set, says } of checks) {
  test(`config: ${name}`, () => {
    const problems = problemsOf(() => readConfig(set, noFiles));
    assert.equal(problems.length, says ? 1 : 0, problems.join('\n'));
    if (says) assert.match(problems[0] ?? '', says);
  });
}

test('config: each setting is described once, with its meaning and default', () => {
  const grouped = SETTING_GROUPS.flatMap(({ settings }) => Object.values(settings));
  const names = [...grouped.map(({ name }) => name), ...IGNORED_NAMES];
  assert.equal(new Set(names).size, names.length);
  assert.equal(grouped.length, Object.keys(SETTINGS).length);
  for (const setting of grouped) {
    assert.match(setting.meaning, /^[A-Z`].*[.)]$/, setting.name);
    assert.ok(setting.default !== undefined || setting.unset !== undefined, setting.name);
  }
});
