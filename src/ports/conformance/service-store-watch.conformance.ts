import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Version } from '../../lib/version.ts';
import { listAllPages } from '../cursor.ts';
import type { ServiceStore } from '../service-store.ts';
import { eventually } from './eventually.ts';
import { sampleService } from './sample-service.ts';
import { created, type StartStore } from './service-store-under-test.ts';

export function describeWatch(start: StartStore): void {
  test('watch: a follower ends up with the current records', async (t) => {
    const { store } = await start(t);
    await created(store, sampleService('before'));
    const view = follow(store, t);
    await created(store, sampleService('stays'));
    const { version } = await created(store, sampleService('changes'));
    const changed = await store.replace(sampleService('changes', { definition: { cpu: '2' } }), version);
    const goes = await created(store, sampleService('goes'));
    await store.remove('goes', goes.version);
    await eventually(() => {
      assert.deepEqual([...view.keys()].toSorted(), ['before', 'changes', 'stays']);
      assert.equal(view.get('changes'), changed.version);
    });
  });

  test('watch: every watcher gets each change, also after a pause', async (t) => {
    const { store } = await start(t);
    const views = [follow(store, t), follow(store, t), follow(store, t)];
    let { version } = await created(store, sampleService('cow'));
    await eventually(() => assert.ok(views.every((view) => view.get('cow') === version)));
    ({ version } = await store.replace(sampleService('cow'), version));
    await eventually(() => assert.ok(views.every((view) => view.get('cow') === version)));
    await store.remove('cow', version);
    await eventually(() => assert.ok(views.every((view) => view.size === 0)));
  });

  test('watch: a name that is used again is seen with its last version', async (t) => {
    const { store } = await start(t);
    const view = follow(store, t);
    let last: Version | undefined;
    for (const uid of ['u1', 'u2', 'u3']) {
      if (last) await store.remove('cow', last);
      ({ version: last } = await created(store, sampleService('cow', { uid })));
    }
    await eventually(() => assert.equal(view.get('cow'), last));
  });

  test('watch: a change before the first read is not lost', async (t) => {
    const { store } = await start(t);
    const changes = store.watch(t.signal)[Symbol.asyncIterator]();
    await created(store, sampleService('cow'));
    const { value } = await changes.next();
    assert.ok(value.kind === 'resync' || (value.kind === 'changed' && value.name === 'cow'));
    await changes.return?.();
  });

  test('watch: ends when its signal aborts, also while it waits', async (t) => {
    const { store } = await start(t);
    const abort = new AbortController();
    const ended = drain(store, abort.signal);
    await created(store, sampleService('cow'));
    abort.abort();
    await ended;
  });

  test('watch: ends at once if its signal has already aborted', async (t) => {
    const { store } = await start(t);
    await drain(store, AbortSignal.abort());
  });

  test('watch: a consumer may stop reading', async (t) => {
    const { store } = await start(t);
    const left = (async () => {
      for await (const _ of store.watch(t.signal)) return;
    })();
    const { version } = await created(store, sampleService('cow'));
    await left;
    await store.remove('cow', version);
  });
}

/** Watches, lists, and re-reads each service that is reported as changed, as every consumer does. */
function follow(store: ServiceStore, t: TestContext): Map<string, Version> {
  const view = new Map<string, Version>();
  const abort = new AbortController();
  const changes = store.watch(abort.signal);
  const following = (async () => {
    await relist(store, view);
    for await (const change of changes) {
      if (change.kind === 'resync') await relist(store, view);
      else await reread(store, view, change.name);
    }
  })();
  t.after(async () => {
    abort.abort();
    await following;
  });
  return view;
}

async function relist(store: ServiceStore, view: Map<string, Version>): Promise<void> {
  const pages = await listAllPages((cursor) => store.list(cursor ? { cursor } : {}));
  view.clear();
  for (const { service, version } of pages.flat()) view.set(service.definition.name, version);
}

async function reread(store: ServiceStore, view: Map<string, Version>, name: string): Promise<void> {
  const record = await store.get(name);
  if (record) view.set(name, record.version);
  else view.delete(name);
}

async function drain(store: ServiceStore, signal: AbortSignal): Promise<void> {
  for await (const change of store.watch(signal)) assert.ok(change.kind);
}
