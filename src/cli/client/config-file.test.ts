import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { parse } from 'yaml';
import { ConfigFile, configPath, configText } from './config-file.ts';
import { ClientError } from './errors.ts';

const directory = mkdtempSync(join(tmpdir(), 'oscar-config-'));
after(() => rmSync(directory, { recursive: true }));

let made = 0;
function fileWith(text: string): string {
  made += 1;
  const path = join(directory, `${made}.yaml`);
  writeFileSync(path, text);
  return path;
}

/** As oscar-cli writes it. */
const WRITTEN = `oscar:
  one:
    endpoint: https://one.example.org/
    auth_user: oscar
    auth_password: s3cret
    ssl_verify: true
    memory: 256Mi
    log_level: INFO
  # the one in the cellar
  two:
    endpoint: https://two.example.org
    oidc_account_name: egi
    ssl_verify: false
default: two
`;

describe('configuration: stores of providers', () => {
  const PROVIDERS = `${WRITTEN}providers:
  minio.shared:
    endpoint: http://127.0.0.1:9070/
    access_key: one
    secret_key: hush
`;

  test('configuration: a store is read with its keys', () => {
    const config = ConfigFile.read(fileWith(PROVIDERS));
    const expected = { endpoint: 'http://127.0.0.1:9070', access_key: 'one', secret_key: 'hush', region: 'us-east-1' };
    assert.deepEqual(config.provider('minio.shared'), expected);
    assert.equal(config.clusters.size, 2);
    assert.throws(
      () => config.provider('minio.other'),
      /"minio\.other" is not in .* It has minio\.shared; add its endpoint/,
    );
    assert.throws(() => ConfigFile.read(fileWith(WRITTEN)).provider('minio.shared'), /It has none/);
  });

  test('configuration: a store without an endpoint or keys is rejected, and no key is quoted', () => {
    const refused = (from: string, to: string, problem: RegExp) =>
      assert.throws(
        () => ConfigFile.read(fileWith(PROVIDERS.replace(from, to))),
        (error) => error instanceof ClientError && problem.test(error.message) && !error.message.includes('hush'),
      );
    refused('http://127.0.0.1:9070/', 'ftp://x', /endpoint of the store "minio\.shared" must be an http or https URL/);
    refused('    secret_key: hush\n', '', /the store "minio\.shared" needs access_key and secret_key/);
    refused('  minio.shared:', '  - x:', /"providers" must be a map of stores|invalid YAML/);
  });

  test('configuration: adding a cluster keeps the stores', () => {
    const config = ConfigFile.read(fileWith(PROVIDERS));
    config.add('three', { endpoint: 'https://three.example.org', ssl_verify: true });
    assert.equal(ConfigFile.read(config.path).provider('minio.shared').access_key, 'one');
  });
});

describe('configuration: a file of oscar-cli', () => {
  test('is read as it stands', () => {
    const config = ConfigFile.read(fileWith(WRITTEN));
    assert.deepEqual(config.cluster('one').entry, {
      endpoint: 'https://one.example.org',
      auth_user: 'oscar',
      auth_password: 's3cret',
      ssl_verify: true,
    });
    assert.equal(config.cluster(undefined).id, 'two', 'the default');
    assert.equal(config.cluster(undefined).entry.ssl_verify, false);
  });

  test('may be JSON', () => {
    const config = ConfigFile.read(fileWith('{"oscar":{"a":{"endpoint":"http://a"}}}'));
    assert.equal(config.cluster(undefined).id, 'a', 'the only one needs no name');
    assert.equal(config.cluster('a').entry.ssl_verify, true, 'certificates are verified unless it says otherwise');
  });

  test('keeps its comments and other keys when a cluster is added, and is for its owner alone', () => {
    const path = fileWith(WRITTEN);
    ConfigFile.read(path).add('three', { endpoint: 'http://three', ssl_verify: true });
    const text = readFileSync(path, 'utf8');
    assert.match(text, /# the one in the cellar/);
    assert.match(text, /log_level: INFO/);
    assert.equal(ConfigFile.read(path).default, 'two');
    assert.equal(ConfigFile.read(path).cluster('three').entry.endpoint, 'http://three');
    assert.equal(statSync(path).mode & 0o777, 0o600);
  });

  test('the first cluster becomes the default; a default that is removed is none any more', () => {
    const path = join(directory, 'new', 'config.yaml');
    ConfigFile.read(path).add('a', { endpoint: 'http://a', ssl_verify: true });
    ConfigFile.read(path).add('b', { endpoint: 'http://b', ssl_verify: true });
    assert.equal(ConfigFile.read(path).default, 'a');
    ConfigFile.read(path).setDefault('b');
    ConfigFile.read(path).remove('b');
    assert.equal(ConfigFile.read(path).default, undefined);
    assert.deepEqual([...ConfigFile.read(path).clusters.keys()], ['a']);
  });
});

const wrong: { name: string; text: string; id?: string; says: RegExp }[] = [
  { name: 'no cluster at all', text: '', says: /oscar clusters add ID URL.*oscar up/ },
  { name: 'several, and none chosen', text: 'oscar: {a: {endpoint: http://a}, b: {endpoint: http://b}}', says: /a, b/ },
  {
    name: 'a typing error',
    text: WRITTEN,
    id: 'onne',
    says: /"onne" is not in .*did you mean one\? It has one, two/,
  },
  {
    name: 'an endpoint without a scheme',
    text: 'oscar: {a: {endpoint: a.org}}',
    says: /endpoint of cluster "a" must be/,
  },
  { name: 'a list of clusters', text: 'oscar: [a]', says: /"oscar" must be a map/ },
];
for (const { name, text, id, says } of wrong) {
  test(`configuration: ${name} is an error that says what to do`, () => {
    const look = () => ConfigFile.read(fileWith(text)).cluster(id);
    assert.throws(
      look,
      (error) => error instanceof ClientError && error.code === 'bad-input' && says.test(error.message),
    );
  });
}

test('configuration: the error for invalid YAML does not quote the file, which has passwords', () => {
  const path = fileWith('oscar:\n  a:\n    auth_password: "s3cret\n');
  assert.throws(
    () => ConfigFile.read(path),
    (error: Error) => /invalid YAML in line \d/.test(error.message) && !error.message.includes('s3cret'),
  );
});

test('configuration: the order is --config, OSCAR_CONFIG_FILE, `oscar up`, oscar-cli', () => {
  const home = join(directory, 'home');
  const before = process.cwd();
  mkdirSync(join(directory, 'here', '.oscar'), { recursive: true });
  process.chdir(join(directory, 'here'));
  try {
    const env = { HOME: home, OSCAR_CONFIG_FILE: '/env.yaml' };
    assert.equal(configPath('/given.yaml', env), '/given.yaml');
    assert.equal(configPath(undefined, env), '/env.yaml');
    assert.equal(configPath(undefined, { HOME: home }), join(home, '.oscar-cli', 'config.yaml'));
    writeFileSync(join('.oscar', 'config.yaml'), '');
    assert.equal(configPath(undefined, { HOME: home }), join(process.cwd(), '.oscar', 'config.yaml'));
  } finally {
    process.chdir(before);
  }
});

test('configuration: the file of `oscar up` has all keys that oscar-cli needs', () => {
  const entry = { endpoint: 'http://127.0.0.1:1', auth_user: 'oscar', auth_password: 'x', ssl_verify: false };
  assert.deepEqual(parse(configText(new Map([['a', entry]]), 'a')), {
    oscar: { a: { ...entry, memory: '256Mi', log_level: 'INFO' } },
    default: 'a',
  });
});
