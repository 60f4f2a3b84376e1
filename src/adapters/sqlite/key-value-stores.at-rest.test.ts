import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { type TestContext, test } from 'node:test';
import { temporaryDirectory } from '../../../test/support/temporary-directory.ts';
import { Secret } from '../../lib/secret.ts';
import { sampleService } from '../../ports/conformance/sample-service.ts';
import { created } from '../../ports/conformance/service-store-under-test.ts';
import { openLocalCluster } from './index.ts';

const MARK = 'Mo0-mark-that-must-not-be-seen';

test('encryption at rest: no file contains a secret in clear text, while the cluster is open or closed', async (t) => {
  const directory = temporaryDirectory(t);
  const cluster = openLocalCluster({ directory });
  const { version } = await created(cluster.services, sampleService('cow', { token: `${MARK}-1` }));
  await cluster.services.replace(sampleService('cow', { token: `${MARK}-2` }), version);
  await cluster.secrets.put('user', 'alice', { [`${MARK}-name`]: new Secret(`${MARK}-3`) });
  await cluster.secrets.put('user', 'alice', { key: new Secret(`${MARK}-4`) });
  await cluster.secrets.remove('user', 'alice');
  await cluster.journal.begin('visible-key', {});

  const files = ['manager.db', 'manager.db-wal', 'manager.db-shm'].map((name) => join(directory, name));
  assertUnseen(readFiles(files));
  await cluster.close();
  assertUnseen(readFiles(files.slice(0, 1)));
});

/** A child process reads the files, because closing them in this process would drop the locks of SQLite. */
function readFiles(files: string[]): Buffer {
  return execFileSync('cat', files, { maxBuffer: 2 ** 28 });
}

function assertUnseen(bytes: Buffer): void {
  assert.ok(bytes.includes('visible-key'), 'these are not the files that are written to');
  for (const encoding of ['utf8', 'hex', 'base64url'] as const) {
    const mark = Buffer.from(MARK).toString(encoding).slice(0, 24);
    assert.equal(bytes.includes(mark), false, `there is a secret in ${encoding}`);
  }
}

const tampered: { name: string; sql: string; damaged: string }[] = [
  {
    name: 'a secret copied over another one of its kind',
    sql: `UPDATE secrets SET sealed = (SELECT sealed FROM secrets WHERE key = 'bob') WHERE key = 'alice'`,
    damaged: 'secret user alice',
  },
  {
    name: 'a secret moved to another kind',
    sql: `UPDATE secrets SET sealed = (SELECT sealed FROM secrets WHERE room = 'grant') WHERE key = 'alice'`,
    damaged: 'secret user alice',
  },
  {
    name: 'a secret with a changed byte',
    sql: `UPDATE secrets SET sealed = CAST(substr(sealed, 1, length(sealed) - 1) || x'00' AS BLOB) WHERE key = 'alice'`,
    damaged: 'secret user alice',
  },
  {
    name: 'the token of another service',
    sql: `UPDATE services SET token = (SELECT token FROM services WHERE name = 'dog') WHERE name = 'cow'`,
    damaged: 'service cow',
  },
  {
    name: 'the token of an earlier service of the same name',
    sql: `UPDATE services SET uid = 'later' WHERE name = 'cow'`,
    damaged: 'service cow',
  },
];

for (const { name, sql, damaged } of tampered) {
  test(`encryption at rest: ${name} is rejected`, async (t) => {
    const directory = await filledDirectory(t);
    const outside = new DatabaseSync(join(directory, 'manager.db'));
    assert.equal(outside.prepare(sql).run().changes, 1);
    outside.close();

    const { services, secrets, close } = openLocalCluster({ directory });
    t.after(close);
    const reads = [() => services.get('cow'), () => services.list({}), () => secrets.get('user', 'alice')];
    const results = await Promise.allSettled(reads.map((read) => read()));
    const errors = results.filter((result) => result.status === 'rejected').map(({ reason }) => reason);
    assert.equal(errors.length, damaged.startsWith('service') ? 2 : 1);
    for (const { code, message } of errors) {
      assert.equal(code, 'damaged');
      assert.ok(message.includes(damaged) && !message.includes(MARK), message);
    }
    assert.ok(await services.get('dog'));
    assert.ok(await secrets.get('user', 'bob'));
  });
}

async function filledDirectory(t: TestContext): Promise<string> {
  const directory = temporaryDirectory(t);
  const { services, secrets, close } = openLocalCluster({ directory });
  for (const name of ['cow', 'dog']) await created(services, sampleService(name, { token: `${MARK}-${name}` }));
  for (const user of ['alice', 'bob']) await secrets.put('user', user, { key: new Secret(`${MARK}-${user}`) });
  await secrets.put('grant', 'g1', { key: new Secret(MARK) });
  await close();
  return directory;
}
