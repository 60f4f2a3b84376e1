import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clustersSetting } from './clusters.ts';

const CA = `-----BEGIN CERTIFICATE-----
MIIBezCCASGgAwIBAgIUUt5Ty34u8Imnprlc/XRVMOEAwHAwCgYIKoZIzj0EAwIw
EjEQMA4GA1UEAwwHdGVzdC1jYTAgFw0yNjExMTUyMjQ3MjVaGA8yMTI2MTAyMjIy
NDcyNVowEjEQMA4GA1UEAwwHdGVzdC1jYTBZMBMGByqGSM49AgEGCCqGSM49AwEH
A0IABGe0SzcotKy8h7IAUUxK51a4EJSbRQB4Q3ytFYzCn/tb/Kvc8XhX2F5WokxV
n9SaWgNk75afwiD/c6sTOw6Q87OjUzBRMB0GA1UdDgQWBBR21ABVD2vnrXok3xwe
14pJR9Ah4DAfBgNVHSMEGDAWgBR21ABVD2vnrXok3xwe14pJR9Ah4DAPBgNVHRMB
Af8EBTADAQH/MAoGCCqGSM49BAMCA0gAMEUCIHM+viceShwOSZMYdkuS2iabl182
FFwgtDVvT0Q+vzfHAiEA55blxTJDNw8fxPCM/J7/MAouizNNO8Tr5MIrdOJc7II=
-----END CERTIFICATE-----`;

const files: Record<string, string> = {
  'clusters.yaml': 'b: { endpoint: https://b.example.org }',
  'ca.pem': `Our authority\n${CA}\n${CA}\n`,
  'key.pem': '-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n',
  'broken.pem': '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n',
  'list.yaml': '- b',
  'broken.yaml': 'b: {\n',
};

function read(text: string) {
  return clustersSetting.parse(text, {
    files: (name) => files[name] ?? assert.fail(`ENOENT: no such file or directory, open '${name}'`),
    valueOf: () => undefined,
  });
}

const plain = { endpoint: 'https://b.example.org', store: undefined, sslVerify: true, ca: undefined, kind: 'oscar' };

test('clusters: only the endpoint is required, and the certificate is verified by default', () => {
  assert.deepEqual(read('b: {endpoint: "https://b.example.org/"}'), { value: new Map([['b', plain]]) });
});

test('clusters: may be in a file', () => {
  assert.deepEqual(read('clusters.yaml'), { value: new Map([['b', plain]]) });
});

test('clusters: all fields are read', () => {
  const text = `
    c.old:
      endpoint: http://10.0.0.2:8080
      store: http://10.0.0.2:9000
      ssl_verify: false
      kind: upstream
      ca: ca.pem
  `;
  const cluster = {
    endpoint: 'http://10.0.0.2:8080',
    store: 'http://10.0.0.2:9000',
    sslVerify: false,
    ca: `${CA}\n${CA}`,
    kind: 'upstream',
  };
  assert.deepEqual(read(text), { value: new Map([['c.old', cluster]]) });
});

test('clusters: certificates may be given inline', () => {
  const parsed = read(JSON.stringify({ b: { endpoint: 'https://b.example.org', ca: CA } }));
  assert.deepEqual(parsed, { value: new Map([['b', { ...plain, ca: CA }]]) });
});

const endpoint = 'endpoint: https://b.example.org';
const wrong = [
  { name: 'a cluster without an endpoint', text: 'b: {}', says: /^\.b\.endpoint is missing; accepted is an http/ },
  {
    name: 'an invalid endpoint',
    text: 'b: {endpoint: b.example.org}',
    says: /^\.b\.endpoint is "b\.example\.org"/,
  },
  {
    name: 'an unknown kind',
    text: `b: {${endpoint}, kind: k3s}`,
    says: /^\.b\.kind is "k3s"; accepted is `oscar` or/,
  },
  {
    name: 'an unknown key',
    text: `b: {${endpoint}, sslverify: x}`,
    says: /^\.b\.sslverify is not known, did you mean ssl_/,
  },
  { name: 'an id with a slash', text: `a/b: {${endpoint}}`, says: /^\.a\/b is not a cluster id: it must be/ },
  {
    name: 'a cluster that is only a URL',
    text: 'b: https://b.example.org',
    says: /^\.b is not a map with endpoint/,
  },
  {
    name: 'a missing file',
    text: 'none.yaml',
    says: /^ is "none\.yaml", a file that cannot be read: ENOENT/,
  },
  { name: 'a file that is not a map', text: 'list.yaml', says: /^ is "list\.yaml", which is not a map/ },
  {
    name: 'a file that is not YAML',
    text: 'broken.yaml',
    says: /^ is "broken\.yaml", which is not YAML, line 2, column 1/,
  },
  { name: 'invalid inline YAML', text: 'b: {', says: /^ is not YAML, line 1, column 5/ },
  { name: 'a list', text: '[b]', says: /^ is not a map from cluster ids/ },
  {
    name: 'a missing certificate file',
    text: `b: {${endpoint}, ca: no.pem}`,
    says: /^\.b\.ca is "no\.pem", a file that/,
  },
  {
    name: 'a private key instead of a certificate',
    text: `b: {${endpoint}, ca: key.pem}`,
    says: /^\.b\.ca is "key\.pem", a file without PEM/,
  },
  {
    name: 'a broken certificate',
    text: `b: {${endpoint}, ca: broken.pem}`,
    says: /^\.b\.ca is "broken\.pem", a file without/,
  },
];
for (const { name, text, says } of wrong) {
  test(`clusters: ${name} is a problem`, () => {
    const parsed = read(text);
    assert.ok('problems' in parsed);
    assert.deepEqual(parsed.problems.length, 1);
    const [problem] = parsed.problems;
    assert.match(`${problem?.path} ${problem?.text}`, says);
  });
}
