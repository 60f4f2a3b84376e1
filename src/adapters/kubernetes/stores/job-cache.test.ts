import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JobState } from '../../../model/job/index.ts';
import { EPOCH, sampleJob, sampleProgress } from '../../../ports/conformance/sample-job.ts';
import { sampleService } from '../../../ports/conformance/sample-service.ts';
import type { KubeJob, Stored } from '../client/kinds.ts';
import { JobCache } from './job-cache.ts';
import { changeCursor, HIGHEST, LOWEST } from './job-index.ts';
import { asMark, type JobEntry, toJob, withJobProgress } from './job-object.ts';

const options = { managedBy: true };

function object(id: string, version: number, state: JobState = 'accepted', uid = `uid-of-${id}`): Stored<KubeJob> {
  const event = { bytes: 1, place: { inline: new Uint8Array(1) } };
  const job = toJob(sampleJob(id, { acceptedAt: EPOCH }), sampleProgress(state), event, sampleService('cow'), options);
  return { ...job, metadata: { ...job.metadata, uid, resourceVersion: String(version) } };
}

const at = (stored: Stored<KubeJob>, version: number): Stored<KubeJob> => ({
  ...stored,
  metadata: { ...stored.metadata, resourceVersion: String(version) },
});

function open() {
  const gone: JobEntry[] = [];
  const problems: unknown[] = [];
  let told = 0;
  const cache = new JobCache({
    changed: () => {
      told += 1;
    },
    gone: (entry) => gone.push(entry),
    report: (problem) => problems.push(problem),
  });
  cache.listed([], '8');
  const versions = () =>
    (cache.index.listed('cow')?.below(HIGHEST, 100) ?? []).map(
      (record) => `${record.id}@${cache.find(record)?.resourceVersion}`,
    );
  const changes = (since: number) => {
    const { keys, cursor } = cache.log.read(changeCursor(String(since)), undefined, 100);
    return { ids: keys.map(({ id }) => id), cursor };
  };
  return { cache, gone, problems, versions, changes, told: () => told };
}

test('the newer version stays, in whatever order they come', () => {
  const { cache, versions } = open();
  cache.put(object('a', 10));
  cache.changed(object('a', 9));
  assert.deepEqual(versions(), ['cow-a@10']);
  cache.changed(object('a', 100));
  assert.deepEqual(versions(), ['cow-a@100']);
});

test('what was removed does not come back with an event, an answer or a list from before', () => {
  const { cache, versions, gone } = open();
  cache.put(object('a', 9));
  cache.drop({ uid: 'uid-of-a' });
  cache.changed(object('a', 10));
  assert.equal(cache.put(object('a', 11)), undefined);
  cache.listed([object('a', 11)].map(cache.slim), '12');
  assert.deepEqual(versions(), []);
  assert.equal(gone.length, 1);
  assert.equal(cache.atHand.get('uid-of-a'), undefined);
});

test('one that follows another of its name stands for itself, whatever is told late of the other', () => {
  const { cache, versions, gone } = open();
  cache.put(object('a', 9, 'failed', 'old'));
  cache.put(object('a', 11, 'accepted', 'new'));
  cache.deleted(object('a', 10, 'failed', 'old'));
  assert.deepEqual(versions(), ['cow-a@11']);
  assert.deepEqual(cache.index.counts, new Map([['accepted', 1]]));
  assert.deepEqual(
    gone.map(({ uid }) => uid),
    ['old'],
  );
});

test('a list takes away what is not in it, but nothing that was written since', () => {
  const { cache, versions } = open();
  cache.put(object('old', 9));
  cache.put(object('own', 21));
  cache.listed([object('there', 15)].map(cache.slim), '20');
  assert.deepEqual(versions().toSorted(), ['cow-own@21', 'cow-there@15']);
});

test('of a list, only records are held; of what is watched, whole objects', () => {
  const { cache } = open();
  cache.listed([object('listed', 15)].map(cache.slim), '20');
  cache.changed(object('watched', 21));
  assert.equal(cache.atHand.get('uid-of-listed'), undefined);
  assert.ok(cache.atHand.get('uid-of-watched'));
  assert.ok(cache.find({ service: 'cow', id: 'cow-listed' })?.record);
});

test('a status that is written is no change of the job', () => {
  const { cache, changes } = open();
  const made = object('a', 9);
  cache.changed(made);
  cache.changed({ ...at(made, 10), status: { active: 1 } });
  assert.deepEqual(changes(9), { ids: [], cursor: changeCursor('10') });
  assert.equal(cache.find({ service: 'cow', id: 'cow-a' })?.shown, 'Running');
  cache.changed(at(withJobProgress(made, { state: 'running' }), 11));
  assert.deepEqual(changes(9).ids, ['cow-a']);
});

test('that Kueue lets one in, or takes that back, is told of', () => {
  const { cache, changes } = open();
  const plain = object('a', 9, 'queued');
  const suspended = (version: number, suspend: boolean) => at({ ...plain, spec: { ...plain.spec, suspend } }, version);
  cache.changed(suspended(9, true));
  assert.deepEqual(changes(9).ids, []);
  cache.changed(suspended(10, false));
  assert.deepEqual(changes(9).ids, ['cow-a']);
  cache.changed(suspended(11, false));
  assert.deepEqual(changes(10).ids, []);
  cache.changed(suspended(12, true));
  assert.deepEqual(changes(10).ids, ['cow-a']);
});

test('one that is hidden is told of as gone, once, and a mark that is dropped not at all', () => {
  const { cache, changes } = open();
  const made = object('a', 9, 'failed');
  cache.changed(made);
  const mark = at(asMark(made), 10);
  cache.put(mark);
  assert.deepEqual(changes(9).ids, [], 'not before the watch has told');
  cache.changed(mark);
  assert.deepEqual(changes(9).ids, ['cow-a']);
  assert.equal(cache.find({ service: 'cow', id: 'cow-a' })?.record, undefined);
  assert.deepEqual(cache.index.counts, new Map());
  assert.equal([...cache.index.hiddenOf('uid-of-cow')].length, 1);
  cache.deleted(at(mark, 11));
  assert.deepEqual(changes(10).ids, []);
  assert.equal([...cache.index.hiddenOf('uid-of-cow')].length, 0);
});

test('a job is in all the orders of its state, and in no other', () => {
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

test('one that cannot be read is reported, and whoever listens is told of the others', () => {
  const { cache, problems, versions, told } = open();
  const { metadata, ...rest } = object('odd', 9);
  const odd = { ...rest, metadata: { ...metadata, annotations: {} } };
  cache.listed([odd, object('a', 9)].map(cache.slim), '20');
  const before = told();
  cache.changed(at(odd, 21));
  cache.deleted(at(odd, 22));
  assert.equal(problems.length, 3);
  assert.deepEqual(versions(), ['cow-a@9']);
  assert.ok(told() > before);
  assert.equal(cache.log.read(undefined, undefined, 1).cursor, changeCursor('22'));
});
