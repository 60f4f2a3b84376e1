import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { temporaryDirectory } from '../../../test/support/temporary-directory.ts';
import { indexTermsFor, listAllPages } from '../../ports/index.ts';
import { type LocalCluster, openLocalCluster } from './index.ts';
import { KINDS, type Kind, stateAfter, WRITERS } from './kill.schedule.ts';

const ROUNDS = Number(process.env['OSCAR_TEST_ROUNDS'] ?? 5);
const CHILD = fileURLToPath(new URL('./kill.child.ts', import.meta.url));

/** The child is killed after at most this many acknowledged writes. */
const MAX_WRITES = 400;

test('crash: after kill -9 every acknowledged write exists, and no record is incomplete', {
  timeout: ROUNDS * 20_000,
}, async (t) => {
  const directory = temporaryDirectory(t);
  const settled = new Map<string, number | undefined>();
  for (let round = 0; round < ROUNDS; round++) {
    const killAfter = 1 + Math.floor(Math.random() * MAX_WRITES);
    const acknowledged = await writeUntilKilled(directory, `round-${round}`, killAfter);
    const cluster = openLocalCluster({ directory });
    for (const kind of KINDS) {
      for (let writer = 0; writer < WRITERS; writer++) {
        const n = acknowledged.get(`${kind} ${writer}`) ?? -1;
        const found = await readState[kind](cluster, `round-${round}-${writer}`);
        const allowed = [stateAfter(n), stateAfter(n + 1)];
        assert.ok(allowed.includes(found), `${kind} ${writer} of round ${round}: ${found} after write ${n}`);
        settled.set(`${kind} round-${round}-${writer}`, found);
      }
    }
    for (const [key, state] of settled) assert.equal(await find(cluster, key), state, `${key} has changed since`);
    const expected = await termsIn(cluster);
    await cluster.close();
    assertWhole(directory, expected);
  }
});

/** Returns the last acknowledged write of each writer. */
async function writeUntilKilled(directory: string, prefix: string, killAfter: number): Promise<Map<string, number>> {
  const acknowledged = new Map<string, number>();
  const child = spawn(process.execPath, [CHILD, directory, prefix], { stdio: ['ignore', 'pipe', 'inherit'] });
  let lines = 0;
  for await (const line of createInterface({ input: child.stdout })) {
    const [kind, writer, n] = line.split(' ');
    acknowledged.set(`${kind} ${writer}`, Number(n));
    lines += 1;
    if (lines === killAfter) child.kill('SIGKILL');
  }
  assert.ok(lines >= killAfter, 'the child ended by itself');
  return acknowledged;
}

const readState: Record<Kind, (cluster: LocalCluster, key: string) => Promise<number | undefined>> = {
  service: async ({ services }, name) => numberIn((await services.get(name))?.service.definition.labels['n']),
  secret: async ({ secrets }, key) => numberIn((await secrets.get('grant', key))?.values['n']?.reveal()),
  journal: async ({ journal }, key) => numberIn((await journal.read(key))?.state['n']),
};

const numberIn = (value: unknown) => (value === undefined ? undefined : Number(value));

async function find(cluster: LocalCluster, key: string): Promise<number | undefined> {
  const kind = KINDS.find((prefix) => key.startsWith(`${prefix} `));
  assert.ok(kind);
  return readState[kind](cluster, key.slice(kind.length + 1));
}

/** The expected rows of the index, as `name term`. */
async function termsIn({ services }: LocalCluster): Promise<string[]> {
  const records = (await listAllPages((cursor) => services.list(cursor ? { cursor } : {}))).flat();
  return records
    .flatMap(({ service }) => indexTermsFor(service).map((term) => `${service.definition.name} ${term}`))
    .toSorted();
}

function assertWhole(directory: string, terms: string[]): void {
  const database = new DatabaseSync(join(directory, 'manager.db'));
  const rows = (sql: string) =>
    database
      .prepare(sql)
      .all()
      .map((row) => Object.values(row).join(' '));
  assert.deepEqual(rows('PRAGMA integrity_check'), ['ok']);
  assert.deepEqual(rows('PRAGMA foreign_key_check'), []);
  assert.deepEqual(rows('SELECT name, term FROM service_terms').toSorted(), terms);
  assert.deepEqual(rows('SELECT name FROM reservations JOIN services USING (name)'), [], 'reserved and made');
  database.close();
}
