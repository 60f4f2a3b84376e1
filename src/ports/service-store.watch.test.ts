import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newVersion } from '../adapters/sqlite/database.ts';
import { type ServiceChange, WATCH_BACKLOG, Watchers } from './service-store.ts';

const changed = (name: string) => ({ kind: 'changed', name, version: newVersion() }) as const;

/** Everything a consumer gets that comes only now. */
async function backlog(watchers: Watchers, changes: AsyncIterable<ServiceChange>): Promise<ServiceChange[]> {
  const got: ServiceChange[] = [];
  watchers.notify({ kind: 'gone', name: 'the end' });
  for await (const change of changes) {
    got.push(change);
    if (change.kind === 'resync' || change.name === 'the end') break;
  }
  return got;
}

test('watchers: a slow consumer gets only the last change of each name', async (t) => {
  const watchers = new Watchers();
  const changes = watchers.watch(t.signal);
  for (let times = 0; times < 10_000; times++) watchers.notify(changed('cow'));
  const last = changed('cow');
  watchers.notify(last);
  watchers.notify(changed('dog'));
  watchers.notify({ kind: 'gone', name: 'dog' });
  assert.deepEqual(await backlog(watchers, changes), [
    last,
    { kind: 'gone', name: 'dog' },
    { kind: 'gone', name: 'the end' },
  ]);
});

test('watchers: a consumer that is too far behind gets resync and then continues', async (t) => {
  const watchers = new Watchers();
  const changes = watchers.watch(t.signal)[Symbol.asyncIterator]();
  for (let n = 0; n <= WATCH_BACKLOG * 3; n++) watchers.notify(changed(`cow-${n}`));
  assert.deepEqual(await changes.next(), { done: false, value: { kind: 'resync' } });
  const next = changed('dog');
  watchers.notify(next);
  assert.deepEqual(await changes.next(), { done: false, value: next });
});

test('watchers: a consumer within the backlog gets all changes', async (t) => {
  const watchers = new Watchers();
  const changes = watchers.watch(t.signal);
  for (let n = 1; n < WATCH_BACKLOG; n++) watchers.notify(changed(`cow-${n}`));
  assert.equal((await backlog(watchers, changes)).length, WATCH_BACKLOG);
});

test('watchers: an ended watch yields nothing more, not even pending changes', async () => {
  const watchers = new Watchers();
  const abort = new AbortController();
  const changes = watchers.watch(abort.signal)[Symbol.asyncIterator]();
  watchers.notify(changed('cow'));
  abort.abort();
  assert.deepEqual(await changes.next(), { done: true, value: undefined });
});
