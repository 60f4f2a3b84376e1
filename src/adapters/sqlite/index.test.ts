import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { temporaryDirectory } from '../../../test/support/temporary-directory.ts';
import { Secret } from '../../lib/secret.ts';
import { revealed, sampleService } from '../../ports/conformance/sample-service.ts';
import { created } from '../../ports/conformance/service-store-under-test.ts';
import { Database } from './database.ts';
import { type LocalCluster, openLocalCluster } from './index.ts';

async function withCluster<T>(directory: string, use: (cluster: LocalCluster) => Promise<T>): Promise<T> {
  const cluster = openLocalCluster({ directory });
  try {
    return await use(cluster);
  } finally {
    await cluster.close();
  }
}

/** A data directory in which a secret was stored. */
async function usedDirectory(t: TestContext): Promise<string> {
  const directory = temporaryDirectory(t);
  await withCluster(directory, ({ secrets }) => secrets.put('manager', 'key', { value: new Secret('s3cret') }));
  return directory;
}

test('local cluster: all data is still there after a restart', async (t) => {
  const directory = temporaryDirectory(t);
  const service = sampleService('cow', { token: 't0ken' });
  const written = await withCluster(directory, async ({ services, secrets, journal, settings }) => ({
    service: await created(services, service),
    reserved: await services.reserve('dog', 'u1'),
    secret: await secrets.put('grant', 'g1', { token: new Secret('r3fresh') }),
    entry: await journal.begin('deploy/f1', { step: 1 }),
    settings: await settings.write({ allowedImageRepositories: ['ghcr.io'] }),
  }));
  await withCluster(directory, async ({ services, secrets, journal, settings }) => {
    const record = await services.get('cow');
    assert.ok(record);
    assert.equal(record.version, written.service.version);
    assert.deepEqual(revealed(record.service), revealed(service));
    assert.notEqual(await services.reserve('dog', 'u2'), 'taken', 'nobody is left who could use the reservation');
    const grant = await secrets.get('grant', 'g1');
    assert.deepEqual([grant?.version, grant?.values['token']?.reveal()], [written.secret, 'r3fresh']);
    assert.deepEqual(await journal.read('deploy/f1'), written.entry);
    assert.deepEqual(await settings.read(), written.settings);
  });
});

test('sealing key: a lost key is never replaced by a new one', async (t) => {
  const directory = await usedDirectory(t);
  const file = join(directory, 'secret.key');
  const key = readFileSync(file);
  rmSync(file);
  for (let attempt = 0; attempt < 2; attempt++) {
    assert.throws(() => openLocalCluster({ directory }), {
      code: 'key-missing',
      message: /secret\.key is missing.*backup/,
    });
    assert.equal(existsSync(file), false);
  }
  writeFileSync(file, key, { mode: 0o600 });
  await withCluster(directory, async ({ secrets }) => {
    assert.equal((await secrets.get('manager', 'key'))?.values['value']?.reveal(), 's3cret');
  });
});

test('sealing key: a key of another directory is rejected at start', async (t) => {
  const directory = await usedDirectory(t);
  writeFileSync(join(directory, 'secret.key'), randomBytes(32), { mode: 0o600 });
  assert.throws(() => openLocalCluster({ directory }), { code: 'key-wrong', message: /secret\.key is not the key/ });
});

test('sealing key: a key is used again if the first start ended before the database was complete', async (t) => {
  const directory = temporaryDirectory(t);
  // The key is created after the database, and the proof of the key is stored last.
  new Database(join(directory, 'manager.db')).close();
  writeFileSync(join(directory, 'secret.key'), randomBytes(32), { mode: 0o600 });
  await withCluster(directory, ({ settings }) => settings.read());
});

test('close: it ends all watches, and calling it again is a no-op', async (t) => {
  const cluster = openLocalCluster({ directory: temporaryDirectory(t) });
  const next = cluster.services.watch(t.signal)[Symbol.asyncIterator]().next();
  await cluster.close();
  await cluster.close();
  assert.equal((await next).done, true);
});

test('close: it waits for pending writes', async (t) => {
  const directory = temporaryDirectory(t);
  const cluster = openLocalCluster({ directory });
  const begun = cluster.journal.begin('deploy/f1', {});
  await cluster.close();
  await begun;
  await withCluster(directory, async ({ journal }) => assert.ok(await journal.read('deploy/f1')));
});
