import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KubeObject, Stored } from './kinds.ts';
import { WatchCache } from './watch-cache.ts';

const object = (resourceVersion: string, uid = 'u'): Stored<KubeObject> => ({
  metadata: { name: 'x', namespace: 'ns', uid, resourceVersion },
});

function setUp() {
  const notified: string[] = [];
  const cache = new WatchCache<KubeObject>(
    (each) => each,
    (name) => notified.push(name),
    (problem) => assert.fail(String(problem)),
  );
  return { cache, notified, version: () => cache.get('x')?.metadata.resourceVersion };
}

test('watch cache: the newest version stays, whatever the order of arrival', () => {
  const { cache, notified, version } = setUp();
  cache.put(object('10'));
  cache.onChanged(object('9'));
  assert.equal(version(), '10');
  cache.onChanged(object('11'));
  assert.deepEqual([version(), notified], ['11', ['x', 'x']]);
});

test('watch cache: an older event does not bring back a removed object', () => {
  const { cache, version } = setUp();
  cache.put(object('10'));
  cache.drop(object('10'));
  cache.onChanged(object('12'));
  assert.deepEqual([version(), cache.names()], [undefined, []]);
  cache.onChanged(object('13', 'another'));
  assert.deepEqual(cache.names(), ['x']);
});

test('watch cache: a list removes missing objects, except those that were written since', () => {
  const { cache, version } = setUp();
  cache.put(object('10'));
  cache.onListed([], '9');
  assert.equal(version(), '10');
  cache.onListed([], '11');
  assert.equal(version(), undefined);
});

test('watch cache: the deletion of an earlier object of the same name keeps the current one', () => {
  const { cache, version } = setUp();
  cache.put(object('10', 'new'));
  cache.onDeleted(object('9', 'old'));
  assert.equal(version(), '10');
});
