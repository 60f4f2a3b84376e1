import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type HistoricJob, type History, type Result, type Run, storyOf, violationsOf } from './delegation-history.ts';

const KINDS: History['kinds'] = {
  quick: { ends: ['succeeded', 'Completed', 0], results: 1 },
  fails: { ends: ['failed', 'ScriptFailed', 3], results: 0 },
};

/** `far` ran at b as its second attempt, `near` at a, where it came from; `bad` failed at b. */
const far: HistoricJob = jobOf('far', 'succeeded', 'Completed', 0, [
  { name: 'far-at-c', epoch: 1, place: 'c' },
  { name: 'far-at-b', epoch: 2, place: 'b' },
]);
const near: HistoricJob = {
  ...jobOf('near', 'succeeded', 'Completed', 0, [{ name: 'near', epoch: 1, place: 'a' }]),
  object: { bucket: 'fed', key: 'in/near' },
};
const bad: HistoricJob = jobOf('bad', 'failed', 'ScriptFailed', 3, [{ name: 'bad-at-b', epoch: 1, place: 'b' }]);

const runs = [
  runOf('1', 'far', 'far-at-c', 'quick'),
  runOf('2', 'far', 'far-at-b', 'quick'),
  runOf('3', 'near', 'near', 'quick'),
  runOf('4', 'bad', 'bad-at-b', 'fails'),
];
const farResult: Result = { service: 'fed', key: 'out/far', mark: 'far/2', job: 'far', run: '2' };
const nearResult: Result = { service: 'fed', key: 'out/near', mark: 'near', job: 'near', run: '3' };

const SOUND: History = {
  origins: { fed: 'a' },
  kinds: KINDS,
  asked: [
    { service: 'fed', kind: 'quick', id: 'far', acknowledged: true },
    { service: 'fed', kind: 'quick', key: 'in/near', acknowledged: true },
    { service: 'fed', kind: 'fails', id: 'bad', acknowledged: true },
    { service: 'fed', kind: 'quick', acknowledged: false },
  ],
  jobs: [far, near, bad],
  taken: [jobOf('far-at-b', 'succeeded', 'Completed', 0, []), jobOf('far-at-c', 'cancelled', 'Superseded', 143, [])],
  runs,
  objects: [farResult, nearResult],
  told: [farResult, nearResult],
  staged: [],
  disturbances: [{ what: 'the store of a is cut', store: 'a', from: 500, until: 600 }],
};

test('a history in which all went well has nothing wrong in it', () => {
  assert.deepEqual(violationsOf(SOUND), []);
});

const withJob = (changed: HistoricJob) => ({ jobs: SOUND.jobs.map((job) => (job.id === changed.id ? changed : job)) });

const SPOILT: readonly { name: string; change: Partial<History>; says: RegExp }[] = [
  { name: 'a call that was acknowledged has no job', change: { jobs: [near, bad] }, says: /^far: 0 jobs/ },
  {
    name: 'an upload has two jobs',
    change: { jobs: [...SOUND.jobs, { ...near, id: 'too' }] },
    says: /2 jobs of .*in\/near/,
  },
  { name: 'a job has not ended', change: withJob({ ...bad, state: 'delegated' }), says: /bad is delegated/ },
  {
    name: 'an attempt has not ended at a member',
    change: { taken: [jobOf('far-at-b', 'running', 'Started', 0, [])] },
    says: /far-at-b is running/,
  },
  {
    name: 'a job has another exit code than its script',
    change: withJob({ ...bad, exit_code: 1 }),
    says: /bad: it should be failed, ScriptFailed, 3/,
  },
  {
    name: 'a job failed that should not have',
    change: { ...withJob(ended(far, 'failed', 'Lost')), objects: [nearResult], told: [nearResult] },
    says: /far: it should be succeeded/,
  },
  {
    name: 'nobody has cancelled it',
    change: { ...withJob(ended(far, 'cancelled', 'Cancelled')), objects: [nearResult], told: [nearResult] },
    says: /far: nobody has cancelled it/,
  },
  {
    name: 'a store that was well is no reason to fail',
    change: {
      ...withJob(ended(near, 'failed', 'InputFailed')),
      disturbances: [],
      objects: [farResult],
      told: [farResult],
    },
    says: /near: it should be succeeded/,
  },
  {
    name: 'a store that is away is no reason to fail elsewhere',
    change: { ...withJob(ended(far, 'failed', 'OutputFailed')), objects: [nearResult], told: [nearResult] },
    says: /far: it should be succeeded/,
  },
  { name: 'a result is missing', change: { objects: [farResult], told: [farResult] }, says: /near: it has 0 results/ },
  {
    name: 'a job that failed has a result',
    change: { objects: [...SOUND.objects, { ...farResult, key: 'out/bad', job: 'bad', run: '4' }] },
    says: /bad: it is failed and has results/,
  },
  {
    name: 'a result has the mark of an older attempt',
    change: { objects: [{ ...farResult, mark: 'far/1' }, nearResult] },
    says: /far: out\/far is marked far\/1, and what counts is far\/2/,
  },
  {
    name: 'a result has the content of an older attempt',
    change: { objects: [{ ...farResult, run: '1' }, nearResult] },
    says: /far: out\/far is of far-at-c, not of far-at-b/,
  },
  {
    name: 'a result is of a script that did not end',
    change: {
      runs: runs.map(({ endedAt, ...run }) => (run.run === '2' ? run : { ...run, ...(endedAt && { endedAt }) })),
    },
    says: /far: out\/far is of a run that did not end/,
  },
  {
    name: 'a result belongs to nobody',
    change: { objects: [...SOUND.objects, { ...farResult, key: 'out/x', job: 'x' }] },
    says: /x: fed\/out\/x is the result of no job/,
  },
  { name: 'a result was told twice', change: { told: [...SOUND.told, farResult] }, says: /told 2/ },
  { name: 'a result was not told', change: { told: [nearResult] }, says: /told 0/ },
  {
    name: 'something was told that is not there',
    change: { told: [...SOUND.told, { service: 'fed', key: 'x' }] },
    says: /there 0/,
  },
  {
    name: 'an attempt ran twice',
    change: { runs: [...runs, runOf('5', 'far', 'far-at-b', 'quick')] },
    says: /far: the attempt far-at-b ran 2 times/,
  },
  { name: 'a run is of no job', change: { runs: [...runs, runOf('5', 'x', 'x', 'quick')] }, says: /x: the run 5/ },
  { name: 'something is left in staging', change: { staged: ['fed/far/1/files/x'] }, says: /^far: .* left in staging/ },
];

for (const { name, change, says } of SPOILT) {
  test(`it is found out that ${name}`, () => {
    const found = violationsOf({ ...SOUND, ...change }).map(({ job, rule }) => `${job}: ${rule}`);
    assert.ok(
      found.some((words) => says.test(words)),
      found.join('\n'),
    );
  });
}

test('history: a job that a user cancelled may be cancelled, and has no results', () => {
  const asked = SOUND.asked.map((one) => (one.id === 'far' ? { ...one, cancelled: true } : one));
  const change = { ...withJob(ended(far, 'cancelled', 'Cancelled')), asked, objects: [nearResult], told: [nearResult] };
  assert.deepEqual(violationsOf({ ...SOUND, ...change }), []);
});

test('a job that ran beside its store may fail when that cannot be reached', () => {
  const change = { ...withJob(ended(near, 'failed', 'InputFailed')), objects: [farResult], told: [farResult] };
  assert.deepEqual(violationsOf({ ...SOUND, ...change }), []);
});

test('the story of a job is told in order, with what was disturbed meanwhile', () => {
  const words = storyOf('far', SOUND)
    .split('\n')
    .map((line) => line.trim());
  const place = (text: string) => words.findIndex((line) => line.includes(text));
  assert.ok(place('begins run 1') > 0 && place('begins run 1') < place('> the store of a is cut'));
  assert.ok(place('> the store of a is cut') < place('(Completed)'));
  assert.ok(place('begins run 3') < 0, 'another job has its own story');
});

function jobOf(
  id: string,
  state: string,
  reason: string,
  exit_code: number,
  attempts: HistoricJob['attempts'],
): HistoricJob {
  const at = (ms: number) => new Date(ms).toISOString();
  return {
    id,
    service: 'fed',
    state,
    phase: '',
    message: '',
    trigger: 'job',
    exit_code,
    accepted_at: at(0),
    finished_at: at(1_000),
    attempts,
    decisions: [],
    timeline: [{ state, reason, message: '', at: at(1_000), place: 'a' }],
  };
}

function ended(job: HistoricJob, state: string, reason: string): HistoricJob {
  return { ...job, state, timeline: job.timeline.map((each) => ({ ...each, state, reason })) };
}

function runOf(run: string, job: string, attempt: string, kind: string): Run {
  return { run, job, attempt, service: 'fed-at', kind, begunAt: 100, endedAt: 900 };
}
