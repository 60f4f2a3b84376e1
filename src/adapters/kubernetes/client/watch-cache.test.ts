import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KubeObject, Stored } from './kinds.ts';
import { WatchCache } from './watch-cache.ts';

const object = (resourceVersion: string, uid = 'u'): Stored<KubeObject> => ({
  metadata: { name: 'x', namespace: 'ns', uid, resourceVersion },
});

function scene() {
  const told: string[] = [];
  const latest = new WatchCache<KubeObject>(
    (each) => each,
    (name) => told.push(name),
    (problem) => assert.fail(String(problem)),
  );
  return { latest, told, version: () => latest.get('x')?.metadata.resourceVersion };
}

test('the newer version stays, in whatever order they arrive', () => {
  const { latest, told, version } = scene();
  latest.put(object('10'));
  latest.changed(object('9'));
  assert.equal(version(), '10');
  latest.changed(object('11'));
  assert.deepEqual([version(), told], ['11', ['x', 'x']]);
});

test('what was removed does not come back with an event from before', () => {
  const { latest, version } = scene();
  latest.put(object('10'));
  latest.drop(object('10'));
  latest.changed(object('12'));
  assert.deepEqual([version(), latest.names()], [undefined, []]);
  latest.changed(object('13', 'another'));
  assert.deepEqual(latest.names(), ['x']);
});

test('a list takes away what is not in it, but not what was written since', () => {
  const { latest, version } = scene();
  latest.put(object('10'));
  latest.listed([], '9');
  assert.equal(version(), '10');
  latest.listed([], '11');
  assert.equal(version(), undefined);
});

test('the deletion of an earlier object of that name leaves the present one alone', () => {
  const { latest, version } = scene();
  latest.put(object('10', 'new'));
  latest.deleted(object('9', 'old'));
  assert.equal(version(), '10');
});
