import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sampleService } from '../../ports/conformance/sample-service.ts';
import type { ServiceRecord } from '../../ports/index.ts';
import { newVersion } from './database.ts';
import { RecordCache } from './local-service-store.ts';

const record = (): ServiceRecord => ({ service: sampleService('cow'), version: newVersion() });

function kept(cache: RecordCache, names: string[]): string[] {
  return names.filter((name) => cache.get(name) !== undefined);
}

test('record cache: records that are read often stay, others are evicted', () => {
  const cache = new RecordCache({ records: 10, characters: 1_000 });
  cache.put('hot', record(), 1);
  cache.put('cold', record(), 1);
  for (let n = 0; n < 20; n++) {
    cache.put(`cow-${n}`, record(), 1);
    assert.ok(cache.get('hot'));
  }
  assert.deepEqual(kept(cache, ['cold', 'cow-0', 'cow-19', 'hot']), ['cow-19', 'hot']);
});

test('record cache: the number of records never exceeds the limit', () => {
  const cache = new RecordCache({ records: 10, characters: 1_000 });
  const names = Array.from({ length: 100 }, (_, n) => `cow-${n}`);
  for (const name of names) cache.put(name, record(), 1);
  const there = kept(cache, names).length;
  assert.ok(there >= 5 && there <= 10, `${there}`);
});

test('record cache: fewer large records fit', () => {
  const cache = new RecordCache({ records: 100, characters: 100 });
  const names = Array.from({ length: 50 }, (_, n) => `cow-${n}`);
  for (const name of names) cache.put(name, record(), 20);
  const there = kept(cache, names).length;
  assert.ok(there >= 2 && there <= 5, `${there}`);
});

test('record cache: a record larger than the cache is kept until the next one', () => {
  const cache = new RecordCache({ records: 100, characters: 100 });
  cache.put('large', record(), 1_000);
  assert.deepEqual(kept(cache, ['large']), ['large']);
  for (const name of ['a', 'b', 'c']) cache.put(name, record(), 40);
  assert.deepEqual(kept(cache, ['large']), []);
});

test('record cache: a record replaces its earlier version, and a removed one is not found', () => {
  const cache = new RecordCache({ records: 10, characters: 100 });
  const [before, after] = [record(), record()];
  for (let times = 0; times < 20; times++) {
    cache.put('a', before, 10);
    cache.put('a', after, 10);
    assert.equal(cache.get('a'), after);
    for (let n = 0; n < times; n++) cache.put(`cow-${n}`, before, 1);
    assert.ok([after, undefined].includes(cache.get('a')));
    cache.remove('a');
    cache.remove('a');
    assert.equal(cache.get('a'), undefined);
  }
});

test('record cache: a replaced record counts once', () => {
  const cache = new RecordCache({ records: 10, characters: 100 });
  cache.put('b', record(), 10);
  for (let times = 0; times < 50; times++) cache.put('a', record(), 30);
  assert.deepEqual(kept(cache, ['a', 'b']), ['a', 'b']);
});
