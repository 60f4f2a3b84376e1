import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Cursor } from '../../../lib/version.ts';
import { ChangeLog } from './job-cache.ts';
import { changeCursor } from './job-index.ts';

const key = (id: string, service = 'cow') => ({ service, id });

function watched(log: ChangeLog, ...changes: [version: number, id: string, service?: string][]): void {
  for (const [version, id, service] of changes) {
    log.note(key(id, service), String(version));
    log.reach(String(version));
  }
}

function read(log: ChangeLog, since: number, limit = 100, service?: string): [ids: string, cursor: Cursor] {
  const { keys, cursor } = log.read(changeCursor(String(since)), service, limit);
  return [keys.map(({ id }) => id).join(''), cursor];
}

function opened(remembered?: number): ChangeLog {
  const log = new ChangeLog(remembered);
  log.restart('8');
  return log;
}

test('change log: each job is listed once, at its last change, and the cursor is the version that the watch has reached', () => {
  const log = opened();
  watched(log, [9, 'a'], [10, 'b'], [100, 'a'], [101, 'c']);
  log.reach('105');
  assert.deepEqual(read(log, 8), ['bac', changeCursor('105')]);
  assert.deepEqual(read(log, 10), ['ac', changeCursor('105')]);
  assert.deepEqual(read(log, 8, 2), ['ba', changeCursor('100')]);
  assert.deepEqual(read(log, 100, 1), ['c', changeCursor('101')]);
  assert.deepEqual(read(log, 105), ['', changeCursor('105')]);
});

test('change log: a query for one service skips the others', () => {
  const log = opened();
  watched(log, [9, 'a'], [10, 'b', 'dog'], [11, 'c']);
  assert.deepEqual(read(log, 8, 1, 'dog'), ['b', changeCursor('10')]);
  assert.deepEqual(read(log, 10, 1, 'dog'), ['', changeCursor('11')]);
});

test('change log: a cursor of a manager that is ahead stays valid', () => {
  const log = opened();
  watched(log, [9, 'a']);
  assert.deepEqual(read(log, 12), ['', changeCursor('12')]);
  watched(log, [12, 'b'], [13, 'c']);
  assert.deepEqual(read(log, 12), ['c', changeCursor('13')]);
});

test('change log: a cursor from before the list, or older than what is remembered, has expired', () => {
  const log = opened(4);
  assert.throws(() => read(log, 7), { code: 'expired' });
  watched(log, [9, 'a'], [10, 'b'], [11, 'c'], [12, 'd']);
  assert.deepEqual(read(log, 8)[0], 'abcd');
  watched(log, [13, 'b']);
  for (const known of [8, 9]) assert.throws(() => read(log, known), { code: 'expired' });
  assert.deepEqual(read(log, 10)[0], 'cdb');
  log.restart('20');
  assert.throws(() => read(log, 13), { code: 'expired' });
  assert.deepEqual(read(log, 20), ['', changeCursor('20')]);
});

test('change log: waiting for a version resolves when the watch reaches it, and not before', async () => {
  const log = opened();
  assert.equal(await log.reached('8', 0), true);
  const resolved: string[] = [];
  const waiting = ['9', '10'].map(async (version) => {
    assert.equal(await log.reached(version, 60_000), true);
    resolved.push(version);
  });
  log.reach('9');
  await waiting[0];
  assert.deepEqual(resolved, ['9']);
  log.reach('11');
  await Promise.all(waiting);
  assert.equal(await log.reached('12', 1), false, 'the wait is limited');
});
