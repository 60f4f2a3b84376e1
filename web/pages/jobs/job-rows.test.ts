import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JobSummary } from '../../api/live.ts';
import { type ListedJobs, mergeRows } from './job-rows.ts';

const job = (id: string, state = 'running', service = 'grey') =>
  ({ service, id, state, accepted_at: `2026-01-01T00:00:0${id}Z` }) as unknown as JobSummary;
const listed = (jobs: readonly JobSummary[], isComplete = true): ListedJobs => ({
  jobs,
  keys: new Set(jobs.map(({ service, id }) => `${service}/${id}`)),
  isComplete,
});
const live = (...jobs: JobSummary[]) => ({ jobs: new Map(jobs.map((each) => [`${each.service}/${each.id}`, each])) });
const ids = (rows: readonly JobSummary[]) => rows.map(({ id }) => id).join('');
const ALL = { service: '', state: '' };

test('job rows: jobs of events are added where they belong, and none is shown twice', () => {
  const list = listed([job('4'), job('2')]);
  assert.equal(ids(mergeRows(list, live(job('4'), job('5')), ALL)), '542');
  assert.equal(ids(mergeRows(list, live(job('3')), ALL)), '432');
});

test('job rows: a job that no longer matches the filter leaves the list, and one that does now enters it', () => {
  const list = listed([job('4'), job('2')]);
  const filter = { service: '', state: 'running' };
  assert.equal(ids(mergeRows(list, live(job('4', 'succeeded'), job('3', 'running')), filter)), '32');
  assert.equal(ids(mergeRows(list, live(job('5', 'running', 'other')), { service: 'grey', state: '' })), '42');
});

test('job rows: jobs older than what is loaded wait for their page', () => {
  assert.equal(ids(mergeRows(listed([job('4')], false), live(job('1')), ALL)), '4');
  assert.equal(ids(mergeRows(listed([job('4')], true), live(job('1')), ALL)), '41');
});

test('job rows: without changes the list itself is returned, however long it is', () => {
  const list = listed(Array.from({ length: 50_000 }, (_, index) => job(String(index % 10))));
  assert.equal(mergeRows(list, live(), ALL), list.jobs);
});
