import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseMessage } from './events.ts';
import { applyEvents, type JobSummary, type Live } from './live.ts';

const EMPTY: Live = { connected: true, jobs: new Map(), members: new Map(), resyncs: 0 };

const job = (id: string, phase: JobSummary['phase'] = 'Running') => ({
  event: 'job',
  data: JSON.stringify({ service: 'grey', id, phase, state: 'running' }),
});

test('live: an event is read with its name, data and id, and a comment is none', () => {
  assert.deepEqual(parseMessage('event: job\ndata: {"a":1}\nid: 7'), { event: 'job', data: '{"a":1}', id: '7' });
  assert.deepEqual(parseMessage(':\nid: 8'), { event: 'message', data: '', id: '8' });
});

test('live: jobs are changed and removed, and the last changed is the last', () => {
  const live = applyEvents(EMPTY, [
    job('a'),
    job('b'),
    job('a'),
    { event: 'gone', data: '{"service":"grey","id":"b"}' },
  ]);
  assert.deepEqual([...live.jobs.keys()], ['grey/a']);
});

test('live: the oldest ended jobs are forgotten, jobs under way are not', () => {
  const many = Array.from({ length: 2_500 }, (_, index) => job(`ended-${index}`, 'Succeeded'));
  const live = applyEvents(EMPTY, [job('first'), ...many]);
  assert.equal(live.jobs.size, 2_000);
  assert.ok(live.jobs.has('grey/first'));
  assert.ok(live.jobs.has('grey/ended-2499'));
});

test('live: members are kept by their service and name until they are removed', () => {
  const member = (state: string) => ({
    event: 'member',
    data: JSON.stringify({ service: 'grey', member: 'b/grey1', state, at: '' }),
  });
  const known = applyEvents(EMPTY, [member('ready'), member('unreachable')]);
  assert.deepEqual(
    [...known.members.values()].map(({ state }) => state),
    ['unreachable'],
  );
  assert.equal(applyEvents(known, [member('removed')]).members.size, 0);
});

test('live: missed events are counted, so that lists are loaded again', () => {
  assert.equal(applyEvents(EMPTY, [{ event: 'resync', data: '{}' }]).resyncs, 1);
});
