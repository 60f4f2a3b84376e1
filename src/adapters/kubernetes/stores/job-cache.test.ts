import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JobState } from '../../../model/job/index.ts';
import { EPOCH, sampleJob, sampleProgress } from '../../../ports/conformance/sample-job.ts';
import { sampleService } from '../../../ports/conformance/sample-service.ts';
import type { KubeJob, Stored } from '../client/kinds.ts';
import { JobCache } from './job-cache.ts';
import { changeCursor, HIGHEST, LOWEST } from './job-index.ts';
import { type JobEntry, toJob, toTombstone, withJobProgress } from './job-object.ts';

const options = { managedBy: true };

function object(id: string, version: number, state: JobState = 'accepted', uid = `uid-of-${id}`): Stored<KubeJob> {
  const event = { bytes: 1, location: { inline: new Uint8Array(1) } };
  const job = toJob(sampleJob(id, { acceptedAt: EPOCH }), sampleProgress(state), event, sampleService('cow'), options);
  return { ...job, metadata: { ...job.metadata, uid, resourceVersion: String(version) } };
}

const at = (stored: Stored<KubeJob>, version: number): Stored<KubeJob> => ({
  ...stored,
  metadata: { ...stored.metadata, resourceVersion: String(version) },
});

function open() {
  const removed: JobEntry[] = [];
  const problems: unknown[] = [];
  let notified = 0;
  const cache = new JobCache({
    changed: () => {
      notified += 1;
    },
    removed: (entry) => removed.push(entry),
    report: (problem) => problems.push(problem),
  });
  cache.onListed([], '8');
  const versions = () =>
    (cache.index.listed('cow')?.below(HIGHEST, 100) ?? []).map(
      (record) => `${record.id}@${cache.find(record)?.resourceVersion}`,
    );
  const changes = (since: number) => {
    const { keys, cursor } = cache.log.read(changeCursor(String(since)), undefined, 100);
    return { ids: keys.map(({ id }) => id), cursor };
  };
  return { cache, removed, problems, versions, changes, notified: () => notified };
}

test('job cache: the newest version stays, whatever the order of arrival', () => {
  const { cache, versions } = open();
  cache.put(object('a', 10));
  cache.onChanged(object('a', 9));
  assert.deepEqual(versions(), ['cow-a@10']);
  cache.onChanged(object('a', 100));
  assert.deepEqual(versions(), ['cow-a@100']);
});

test('job cache: an older event, response or list does not bring back a removed job', () => {
  const { cache, versions, removed } = open();
  cache.put(object('a', 9));
  cache.drop({ uid: 'uid-of-a' });
  cache.onChanged(object('a', 10));
  assert.equal(cache.put(object('a', 11)), undefined);
  cache.onListed([object('a', 11)].map(cache.slim), '12');
  assert.deepEqual(versions(), []);
  assert.equal(removed.length, 1);
  assert.equal(cache.recentRecords.get('uid-of-a'), undefined);
});

test('job cache: a late deletion of an earlier Job of the same name does not affect the current one', () => {
  const { cache, versions, removed } = open();
  cache.put(object('a', 9, 'failed', 'old'));
  cache.put(object('a', 11, 'accepted', 'new'));
  cache.onDeleted(object('a', 10, 'failed', 'old'));
  assert.deepEqual(versions(), ['cow-a@11']);
  assert.deepEqual(cache.index.counts, new Map([['accepted', 1]]));
  assert.deepEqual(
    removed.map(({ uid }) => uid),
    ['old'],
  );
});

test('job cache: a list removes missing jobs, except those that were written since', () => {
  const { cache, versions } = open();
  cache.put(object('old', 9));
  cache.put(object('own', 21));
  cache.onListed([object('there', 15)].map(cache.slim), '20');
  assert.deepEqual(versions().toSorted(), ['cow-own@21', 'cow-there@15']);
});

test('job cache: lists keep records only, watch events keep complete objects', () => {
  const { cache } = open();
  cache.onListed([object('listed', 15)].map(cache.slim), '20');
  cache.onChanged(object('watched', 21));
  assert.equal(cache.recentRecords.get('uid-of-listed'), undefined);
  assert.ok(cache.recentRecords.get('uid-of-watched'));
  assert.ok(cache.find({ service: 'cow', id: 'cow-listed' })?.record);
});

test('job cache: a change of the status is no change of the job', () => {
  const { cache, changes } = open();
  const made = object('a', 9);
  cache.onChanged(made);
  cache.onChanged({ ...at(made, 10), status: { active: 1 } });
  assert.deepEqual(changes(9), { ids: [], cursor: changeCursor('10') });
  assert.equal(cache.find({ service: 'cow', id: 'cow-a' })?.shown, 'Running');
  cache.onChanged(at(withJobProgress(made, { state: 'running' }), 11));
  assert.deepEqual(changes(9).ids, ['cow-a']);
});

test('job cache: admission and eviction by Kueue are reported as changes', () => {
  const { cache, changes } = open();
  const plain = object('a', 9, 'queued');
  const suspended = (version: number, suspend: boolean) => at({ ...plain, spec: { ...plain.spec, suspend } }, version);
  cache.onChanged(suspended(9, true));
  assert.deepEqual(changes(9).ids, []);
  cache.onChanged(suspended(10, false));
  assert.deepEqual(changes(9).ids, ['cow-a']);
  cache.onChanged(suspended(11, false));
  assert.deepEqual(changes(10).ids, []);
  cache.onChanged(suspended(12, true));
  assert.deepEqual(changes(10).ids, ['cow-a']);
});

test('job cache: a tombstone is reported as a removal once, and its own removal is not reported', () => {
  const { cache, changes } = open();
  const made = object('a', 9, 'failed');
  cache.onChanged(made);
  const tombstone = at(toTombstone(made), 10);
  cache.put(tombstone);
  assert.deepEqual(changes(9).ids, [], 'not before the watch reports it');
  cache.onChanged(tombstone);
  assert.deepEqual(changes(9).ids, ['cow-a']);
  assert.equal(cache.find({ service: 'cow', id: 'cow-a' })?.record, undefined);
  assert.deepEqual(cache.index.counts, new Map());
  assert.equal([...cache.index.hiddenFor('uid-of-cow')].length, 1);
  cache.onDeleted(at(tombstone, 11));
  assert.deepEqual(changes(10).ids, []);
  assert.equal([...cache.index.hiddenFor('uid-of-cow')].length, 0);
});

test('job cache: the index lists a job in the orders of its state only', () => {
  const { cache } = open();
  const made = object('a', 9);
  const sizes = () =>
    [cache.index.accepted, cache.index.unfinished, cache.index.waiting, cache.index.ended].map((o) => o.size);
  const expected: [JobState, number[]][] = [
    ['accepted', [1, 1, 1, 0]],
    ['running', [1, 1, 0, 0]],
    ['offering', [1, 1, 1, 0]],
    ['succeeded', [1, 0, 0, 1]],
  ];
  for (const [n, [state, orders]] of expected.entries()) {
    cache.put(at(withJobProgress(made, { state, finishedAt: EPOCH + n }), 9 + n));
    assert.deepEqual(sizes(), orders, state);
    assert.deepEqual(cache.index.counts, new Map([[state, 1]]));
  }
  assert.equal(cache.index.ended.above(LOWEST, 1)[0]?.finishedAt, EPOCH + 3);
  cache.drop({ uid: 'uid-of-a' });
  assert.deepEqual(sizes(), [0, 0, 0, 0]);
});

test('job cache: a Job that cannot be parsed is reported and skipped, and listeners learn of the others', () => {
  const { cache, problems, versions, notified } = open();
  const { metadata, ...rest } = object('odd', 9);
  const odd = { ...rest, metadata: { ...metadata, annotations: {} } };
  cache.onListed([odd, object('a', 9)].map(cache.slim), '20');
  const before = notified();
  cache.onChanged(at(odd, 21));
  cache.onDeleted(at(odd, 22));
  assert.equal(problems.length, 3);
  assert.deepEqual(versions(), ['cow-a@9']);
  assert.ok(notified() > before);
  assert.equal(cache.log.read(undefined, undefined, 1).cursor, changeCursor('22'));
});
