import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sampleService } from '../../../ports/conformance/sample-service.ts';
import { type ServiceChange, visibleTo } from '../../../ports/index.ts';
import type { ConfigMap, Stored } from '../client/kinds.ts';
import { toConfigMap } from './definition.ts';
import { ServiceCache } from './service-cache.ts';

const objectStore = { endpoint: '', verify: true, region: '' };

interface Seen {
  uid?: string;
  namespace?: string;
  owner?: string;
  created?: string;
}

function object(name: string, version: number, { uid = 'o1', namespace = 'ns', owner = 'alice', created }: Seen = {}) {
  const { metadata, data = {} } = toConfigMap(sampleService(name, { namespace, owner }), objectStore);
  const seen = { uid, resourceVersion: String(version), ...(created && { creationTimestamp: created }) };
  const stored: Stored<ConfigMap> = { data, metadata: { ...metadata, ...seen } };
  return stored;
}

function open() {
  const said: ServiceChange[] = [];
  const problems: unknown[] = [];
  const cache = new ServiceCache(
    (change) => said.push(change),
    (problem) => problems.push(problem),
  );
  const versions = () => cache.list(undefined, '', 100).map(([place, record]) => `${place}@${record.version}`);
  return { cache, said, problems, versions };
}

test('service cache: the newest version stays, whatever the order of arrival', () => {
  const { cache, versions, said } = open();
  cache.onChanged(object('cow', 9));
  cache.onChanged(object('cow', 10));
  cache.onChanged(object('cow', 8));
  cache.put(object('cow', 10));
  assert.deepEqual(versions(), ['ns/cow@10']);
  assert.equal(said.length, 2);
});

test('service cache: an older event or list does not bring back a removed service', () => {
  const { cache, versions } = open();
  cache.put(object('cow', 9));
  cache.drop(object('cow', 9));
  cache.onChanged(object('cow', 8));
  cache.onChanged(object('cow', 9));
  cache.onListed([object('cow', 9)], '9');
  cache.put(object('cow', 9));
  assert.deepEqual(versions(), []);
});

test('service cache: a late deletion of an earlier object of the same name does not affect the current one', () => {
  const { cache, versions } = open();
  cache.put(object('cow', 5, { uid: 'o1' }));
  cache.put(object('cow', 9, { uid: 'o2' }));
  cache.onDeleted(object('cow', 7, { uid: 'o1' }));
  assert.deepEqual(versions(), ['ns/cow@9']);
});

test('service cache: an object whose label was removed and added again is listed again', () => {
  const { cache, versions } = open();
  cache.onChanged(object('cow', 5));
  cache.onDeleted(object('cow', 6));
  cache.onChanged(object('cow', 7));
  assert.deepEqual(versions(), ['ns/cow@7']);
});

test('service cache: a list removes missing services, except those that were written since', () => {
  const { cache, versions, said } = open();
  cache.put(object('gone', 5, { uid: 'o1' }));
  cache.put(object('new', 20, { uid: 'o2' }));
  cache.onListed([object('stays', 3, { uid: 'o3' })], '10');
  assert.deepEqual(versions(), ['ns/new@20', 'ns/stays@3']);
  assert.deepEqual(said.at(-2), { kind: 'gone', name: 'gone' });
});

test('service cache: of two definitions with one name the older counts, and both are listed', () => {
  const { cache, versions } = open();
  cache.put(object('cow', 5, { uid: 'o2', namespace: 'b', created: '2026-01-02T00:00:00Z' }));
  cache.put(object('cow', 6, { uid: 'o1', namespace: 'a', created: '2026-01-03T00:00:00Z' }));
  assert.equal(cache.find('cow')?.object.metadata.namespace, 'b');
  assert.deepEqual(versions(), ['a/cow@6', 'b/cow@5']);
});

test('service cache: a definition that cannot be parsed is reported, found as an error, and not listed', () => {
  const { cache, versions, problems } = open();
  cache.put(object('cow', 5));
  cache.put({ ...object('cow', 6), data: { 'function_config.yaml': 'a: [' } });
  assert.ok(cache.find('cow')?.record instanceof Error);
  assert.deepEqual(versions(), []);
  assert.equal(problems.length, 1);
});

test('service cache: the index follows changes of the owner and removals', () => {
  const { cache } = open();
  const seenBy = (uid: string) => cache.list([visibleTo(uid)], '', 100).map(([place]) => place);
  cache.put(object('cow', 5, { owner: 'alice' }));
  cache.put(object('cow', 6, { owner: 'bob' }));
  assert.deepEqual([seenBy('alice'), seenBy('bob')], [[], ['ns/cow']]);
  cache.onDeleted(object('cow', 7));
  assert.deepEqual(seenBy('bob'), []);
});

test('service cache: a ConfigMap that no longer defines a service is removed', () => {
  const { cache, versions } = open();
  cache.put(object('cow', 5));
  cache.onChanged({ ...object('cow', 6), data: {} });
  assert.deepEqual(versions(), []);
});
