import assert from 'node:assert/strict';
import { copyFileSync, existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, test } from 'node:test';
import { type Clusters, create, expectStatus, federated, member, read, startClusters } from '../support/federation.ts';
import { eventually } from '../support/jobs.ts';
import { temporaryDirectory } from '../support/manager.ts';

/** `?dry_run=true` answers what a create or an update would do, and changes nothing on any cluster. */

interface Plan {
  readonly name: string;
  readonly action: string;
  readonly changes: readonly string[];
  readonly buckets: readonly { readonly name: string; readonly action: string }[];
  readonly members: readonly { readonly member: string; readonly action: string; readonly problem?: string }[];
}

let them: Clusters;
const directory = temporaryDirectory();
before(async () => {
  // The reconciler must not write while a dry run is compared.
  them = await startClusters({ settings: { OSCAR_RECONCILE_INTERVAL: '3600' } });
});
after(async () => {
  await them[Symbol.asyncDispose]();
  rmSync(directory, { recursive: true, force: true });
});

/** A service that reads and writes a bucket of its own name. */
const plain = (name: string) => ({
  name,
  image: 'busybox',
  cpu: '0.1',
  memory: '64Mi',
  script: '#!/bin/sh\necho done\n',
  input: [{ storage_provider: 'minio.default', path: `${name}/in` }],
  output: [{ storage_provider: 'minio.default', path: `${name}/out` }],
});

/** Every row of every table of every database of every cluster. */
function everything(): unknown {
  return them.all.map(({ manager }) => {
    const files = readdirSync(manager.directory, { recursive: true, encoding: 'utf8' });
    return files.filter((file) => file.endsWith('.db')).map((file) => allRows(join(manager.directory, file)));
  });
}

/** The manager holds a lock on its database, so a copy is read. */
function allRows(file: string): unknown {
  const copy = join(directory, 'copy.db');
  for (const end of ['', '-wal']) if (existsSync(`${file}${end}`)) copyFileSync(`${file}${end}`, `${copy}${end}`);
  const database = new DatabaseSync(copy);
  try {
    const tables = database.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").all();
    assert.ok(tables.length > 0);
    return tables.map(({ name }) => [name, database.prepare(`SELECT * FROM "${String(name)}"`).all()]);
  } finally {
    database.close();
    for (const end of ['', '-wal', '-shm']) rmSync(`${copy}${end}`, { force: true });
  }
}

async function dryRun(method: 'POST' | 'PUT', body: unknown, expected: number, headers = {}) {
  const stored = everything();
  const answer = await them.origin.call(method, '/system/services?dry_run=true', {
    as: them.people.alice,
    body,
    headers,
  });
  assert.deepEqual(everything(), stored, 'a dry run changed something');
  return expectStatus(answer, expected);
}

const plan = async (method: 'POST' | 'PUT', body: unknown) => (await dryRun(method, body, 200)).json() as Plan;

describe('dry run of a service on this cluster', () => {
  test('dry run: a create is answered with its buckets', async () => {
    assert.deepEqual(await plan('POST', plain('dry')), {
      name: 'dry',
      action: 'create',
      changes: [],
      buckets: [{ name: 'dry', action: 'create' }],
      members: [],
    });
  });

  test('dry run: an update is answered with the changed keys and with the buckets that it leaves', async () => {
    await create(them.origin, them.people.alice, plain('wet'));
    const changed = {
      ...plain('wet'),
      memory: '128Mi',
      output: [{ storage_provider: 'minio.default', path: 'sea/out' }],
    };
    const { action, changes, buckets } = await plan('PUT', { ...changed, input: [] });
    assert.equal(action, 'update');
    assert.deepEqual(changes.toSorted(), ['input', 'memory', 'output']);
    assert.deepEqual(buckets, [
      { name: 'sea', action: 'create' },
      { name: 'wet', action: 'keep' },
    ]);
    assert.equal((await plan('PUT', plain('wet'))).changes.length, 0);
  });

  test('dry run: what the request would be rejected for rejects the dry run', async () => {
    const { alice, bob } = them.people;
    await create(them.origin, bob, plain('bobs'));
    assert.match((await dryRun('POST', { ...plain('bad'), memory: 'much' }, 400)).text, /memory/);
    assert.match((await dryRun('POST', '{ not json', 400)).text, /JSON/);
    assert.match((await dryRun('POST', plain('bobs'), 409)).text, /"bobs" is taken/);
    await dryRun('PUT', plain('bobs'), 404);
    await dryRun('PUT', plain('absent'), 404);
    const taken = { ...plain('thief'), output: [{ storage_provider: 'minio.default', path: 'bobs/out' }] };
    assert.match((await dryRun('POST', taken, 409)).text, /"bobs" belongs to another user/);
    await create(them.origin, alice, plain('versioned'));
    await dryRun('PUT', plain('versioned'), 412, { 'if-match': '"old"' });
    const nobody = await them.origin.call('POST', '/system/services?dry_run=true', { body: plain('x') });
    assert.equal(nobody.status, 401);
  });

  test('dry run: the audit log has the create and not its dry run', async () => {
    const file = join(them.origin.manager.directory, 'audit.jsonl');
    const audited = () => readFileSync(file, 'utf8').split('service/silent').length - 1;
    await plan('POST', plain('silent'));
    await create(them.origin, them.people.alice, plain('silent'));
    await eventually(async () => assert.equal(audited(), 1));
  });
});

describe('dry run of a federation', () => {
  test('dry run: members are asked and not told; one that would be adopted is named so', async () => {
    const { alice } = them.people;
    await create(them.a, alice, plain('twin1'));
    const body = federated('twin', [member(them.a, 'twin1'), member(them.b, 'twin2')], them.clusters);
    const { members, buckets } = await plan('POST', body);
    assert.deepEqual(members, [
      { member: 'oscar-cluster-a/twin1', action: 'adopt' },
      { member: 'oscar-cluster-b/twin2', action: 'create' },
    ]);
    assert.deepEqual(buckets, [{ name: 'twin', action: 'create' }]);
    await create(them.origin, alice, body);
  });

  test('dry run: a member that cannot be created rejects it, or is a problem if members may be missing', async () => {
    const away = { ...them.clusters, 'oscar-cluster-c': { endpoint: 'http://127.0.0.1:9' } };
    const members = [member(them.a, 'far1'), member(them.c, 'far3')];
    assert.match(
      (await dryRun('POST', federated('far', members, away), 504)).text,
      /oscar-cluster-c\/far3: unreachable/,
    );
    const relaxed = federated('far', members, away, { federation: { deployment: 'best-effort' } });
    const [near, far] = (await plan('POST', relaxed)).members;
    assert.equal(near?.problem, undefined);
    assert.match(far?.problem ?? '', /./);
    assert.match(
      (await dryRun('POST', federated('lost', [member({ id: 'nowhere' }, 'lost1')], {}), 400)).text,
      /nowhere/,
    );
  });

  test('dry run: an update says which members are updated, added and removed', async () => {
    const body = federated('twin', [member(them.b, 'twin2'), member(them.c, 'twin3')], them.clusters);
    const { members } = await plan('PUT', body);
    assert.deepEqual(members, [
      { member: 'oscar-cluster-b/twin2', action: 'update' },
      { member: 'oscar-cluster-c/twin3', action: 'create' },
      { member: 'oscar-cluster-a/twin1', action: 'remove' },
    ]);
    const worker = await read(them.b, them.people.alice, 'twin2');
    const answer = await them.b.call('PUT', '/system/services?dry_run=true', {
      as: them.people.alice,
      body: { ...worker, environment: {} },
    });
    assert.match(expectStatus(answer, 409).text, /part of a federation/);
  });
});
