import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { ADMIN, call, temporaryDirectory } from '../support/manager.ts';
import { type ManagerProcess, startProcess } from '../support/process.ts';

/**
 * Bodies just below the limit of 2 MiB. With an algorithm that compares each entry or each character with all others,
 * one of them keeps the manager busy for minutes or for hours, in which it answers nobody: the test then ends by its
 * time limit. A manager of its own process, so that the limit can be reached.
 */
const PATIENCE = { timeout: 240_000 };

let manager: ManagerProcess;
let url: string;
const directory = temporaryDirectory();
const ended: (() => void)[] = [];
before(async () => {
  manager = startProcess({ after: (done) => void ended.push(done as () => void) }, directory);
  url = await manager.listening;
  const answer = await call(url, 'POST', '/system/services', { as: ADMIN, body: { ...least, name: 'plain' } });
  assert.equal(answer.status, 201, answer.text);
}, PATIENCE);
after(() => {
  for (const end of ended) end();
  rmSync(directory, { recursive: true, force: true });
});

const least = { name: 'demo', image: 'ubuntu', script: 'echo' };
const list = <T>(length: number, entry: (index: number) => T) => Array.from({ length }, (_, index) => entry(index));
const place = (path: string) => ({ storage_provider: 'minio.default', path });
/** Slashes with something at both ends: nothing can be cut off. */
const run = `a${'/'.repeat(1_900_000)}b`;
const member = (index: number) => ({ cluster_id: `c${index}`, service_name: 'demo' });
const named = (length: number) => Object.fromEntries(list(length, (index) => [`NAME_${index}`, 'x']));

const cases: [string, string, string, Record<string, unknown>, RegExp][] = [
  [
    '20,000 members',
    'POST',
    '/system/services',
    { ...least, federation: { topology: 'star', members: list(20_000, member) } },
    /^federation\.members: has 20000 entries, and at most 1000 are allowed$/m,
  ],
  [
    '20,000 replicas to add',
    'POST',
    '/system/replicas/plain',
    { replicas: list(20_000, member) },
    /^replicas: has 20000 entries, and at most 1000 are allowed$/m,
  ],
  [
    '10,000 replicas to change',
    'PUT',
    '/system/replicas/plain',
    { members: list(10_000, member), update: list(9_999, member) },
    /^members: has 10000 entries, and at most 1000 are allowed$/m,
  ],
  [
    '15,000 inputs and as many outputs',
    'POST',
    '/system/services',
    { ...least, input: list(15_000, (i) => place(`b${i}/in`)), output: list(15_000, (i) => place(`out/${i}`)) },
    /^input: has 15000 entries, and at most 100 are allowed\noutput: has 15000 entries/m,
  ],
  [
    'a folder for each of 5,000 users, 100 inputs and 100 outputs',
    'POST',
    '/system/services',
    {
      ...least,
      isolation_level: 'USER',
      allowed_users: list(5_000, (i) => `user-${i}`),
      input: list(100, (i) => place(`bucket-${i}/in`)),
      output: list(100, (i) => place(`out/${i}`)),
    },
    /^isolation_level: gives each of 5000 allowed users/m,
  ],
  [
    'a path of slashes',
    'POST',
    '/system/services',
    { ...least, input: [place(run)] },
    /input\[0\]\.path: .*not a bucket name/,
  ],
  ['a bucket name of slashes', 'POST', '/system/buckets', { bucket_name: run }, /bucket_name: /],
  [
    'an object key of slashes',
    'POST',
    '/system/buckets/absent/presign',
    { object_key: run, operation: 'download' },
    /there is no bucket/,
  ],
  ['a repository of slashes', 'PUT', '/system/config', { allowed_image_repositories: [run] }, /^/],
  ['an image beside a repository of slashes', 'POST', '/system/services', least, /^image: /],
  ['an empty list of repositories', 'PUT', '/system/config', { allowed_image_repositories: [] }, /^/],
  [
    'an endpoint of slashes',
    'POST',
    '/system/services',
    {
      ...least,
      clusters: { b: { endpoint: `https://b.example/${run}` } },
      federation: { topology: 'star', members: [{ cluster_id: 'b', service_name: 'demo' }] },
    },
    /refresh_token is required/,
  ],
  [
    '60,000 variables',
    'POST',
    '/system/services',
    { ...least, environment: { variables: named(60_000), secrets: named(60_000) } },
    /^environment\.variables: has 60000 entries, and at most 1000 are allowed$/m,
  ],
  [
    'many names that are none',
    'POST',
    '/system/services',
    {
      ...least,
      environment: { variables: named(20_000), secrets: { '1': 'x', ...named(20_000) } },
      labels: named(20_000),
      annotations: named(20_000),
    },
    /^environment\.secrets\.1: is not a legal name/m,
  ],
];

describe('hostile bodies: each is rejected with a message, and the manager keeps running', () => {
  for (const [name, method, path, body, message] of cases) {
    test(name, PATIENCE, async () => {
      const answer = await call(url, method, path, { as: ADMIN, body });
      assert.ok(answer.status < 500, `${answer.status}: ${answer.text.slice(0, 500)}`);
      assert.match(answer.text, message);
      assert.equal((await call(url, 'GET', '/health')).status, 200);
      const services = (await call(url, 'GET', '/system/services', { as: ADMIN })).json() as { name: string }[];
      assert.deepEqual(
        services.map((each) => each.name),
        ['plain'],
      );
    });
  }
});
