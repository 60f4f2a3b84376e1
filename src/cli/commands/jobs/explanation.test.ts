import assert from 'node:assert/strict';
import { test } from 'node:test';
import { groupJobs } from './explain.ts';
import { type DelegationRules, explainJob } from './explanation.ts';
import { aRemoteJob, at, BEGAN, decision, step } from './remote-job.fixture.ts';
import type { RemoteJob } from './remote-job.ts';

const MESH = { topology: 'mesh' };
const FULL = 'it needs 1 core and no node has more than 0.5 free';
const ranOn = (place: string) => [{ place, started_at: at(100), finished_at: at(400) }];

interface Case {
  readonly name: string;
  readonly job?: Partial<RemoteJob>;
  readonly rules?: DelegationRules;
  readonly says: readonly string[];
}

const cases: readonly Case[] = [
  {
    name: 'explain: a job that ran on its origin without a decision',
    rules: MESH,
    says: ['cow-1 succeeded on home.', 'It was triggered by cow/in/a.png.', 'home had room, so no member was asked.'],
  },
  {
    name: 'explain: a job of a service without members',
    says: [
      'cow-1 succeeded on home.',
      'It was triggered by cow/in/a.png.',
      'Its service has no members, so it runs on home.',
    ],
  },
  {
    name: 'explain: decisions and refusals are listed in order',
    rules: MESH,
    job: {
      attempts: ranOn('b'),
      decisions: [
        decision('a/cow-a', [
          { member: 'a/cow-a', score: 0 },
          { member: 'b/cow-b', score: 1 },
        ]),
        decision('b/cow-b', [
          { member: 'b/cow-b', score: 1 },
          { member: 'a/cow-a', refusal: FULL },
        ]),
      ],
    },
    says: [
      'cow-1 succeeded on b.',
      'It was triggered by cow/in/a.png.',
      'home had no room for it, so it was offered to members.',
      'First the policy "static" chose a/cow-a (priority 0), before b/cow-b (priority 1).',
      `Then the policy "static" chose b/cow-b (priority 1). Refused: a/cow-a: ${FULL}.`,
    ],
  },
  {
    name: 'explain: a job that no member could accept ran on its origin',
    rules: MESH,
    job: { decisions: [decision(undefined, [{ member: 'a/cow-a', refusal: FULL }], 'random')] },
    says: [
      'cow-1 succeeded on home.',
      'It was triggered by cow/in/a.png.',
      'home had no room for it, so it was offered to members.',
      `No member could accept it, so it waited on home. Refused: a/cow-a: ${FULL}.`,
      'home had room before any member had.',
    ],
  },
  {
    name: 'explain: with delegate_when always, the origin can be the best candidate',
    rules: { topology: 'star', delegate_when: 'always' },
    job: {
      decisions: [decision('home/cow', [{ member: 'home/cow' }, { member: 'a/cow-a', score: 80 }], 'load-based')],
    },
    says: [
      'cow-1 succeeded on home.',
      'It was triggered by cow/in/a.png.',
      'Every job of this service is offered to its members (delegate_when: always).',
      'The policy "load-based" chose home/cow (no metrics), the origin, before a/cow-a (load 80).',
    ],
  },
  {
    name: 'explain: the age of the metrics is shown',
    rules: MESH,
    job: {
      attempts: ranOn('a'),
      decisions: [
        decision(
          'a/cow-a',
          [
            { member: 'a/cow-a', score: 20, age: 3 },
            { member: 'b/cow-b', age: 75 },
          ],
          'load-based',
        ),
      ],
    },
    says: [
      'cow-1 succeeded on a.',
      'It was triggered by cow/in/a.png.',
      'home had no room for it, so it was offered to members.',
      'The policy "load-based" chose a/cow-a (load 20, 3 s old), before b/cow-b (metrics 75 s old).',
    ],
  },
  {
    name: 'explain: the reason why a job must stay on its origin',
    rules: MESH,
    job: {
      timeline: [step('accepted', 0), step('queued', 0, { reason: 'StaysHere', message: 'its input is at s3.mine' })],
    },
    says: [
      'cow-1 succeeded on home.',
      'It was triggered by cow/in/a.png.',
      'It can only run on home: its input is at s3.mine.',
    ],
  },
  {
    name: 'explain: a failed job names the command that shows its log',
    rules: MESH,
    job: { state: 'failed', message: 'exit code 3', trigger: 'run', attempts: ranOn('home') },
    says: [
      'cow-1 failed on home: exit code 3. `oscar logs cow cow-1` shows what it printed.',
      'It was triggered by cow/in/a.png.',
      'Synchronous calls run on the cluster that was called, home.',
    ],
  },
];

for (const { name, job, rules, says } of cases) {
  test(name, () => assert.deepEqual(explainJob(aRemoteJob(job), rules, BEGAN).sentences, says));
}

test('explain: each step lasts until the next one, and the script time is shown', () => {
  const { steps } = explainJob(aRemoteJob(), MESH, BEGAN + 5_000);
  assert.deepEqual(
    steps.map(({ state, ms, message }) => [state, ms, message]),
    [
      ['queued', 10, 'it is queued'],
      ['running', 690, 'it is running; its script took 600 ms'],
      ['succeeded', undefined, 'it is succeeded'],
    ],
  );
});

test('explain: the current step lasts until now', () => {
  const job = aRemoteJob({ state: 'queued', attempts: [], timeline: [step('accepted', 0), step('queued', 0)] });
  assert.deepEqual(
    explainJob(job, MESH, BEGAN + 5_000).steps.map(({ ms }) => ms),
    [5_000],
  );
});

test('explain: jobs are grouped by cluster and reason, largest group first', () => {
  const sent = (id: string) => aRemoteJob({ id, attempts: ranOn('a'), decisions: [decision('a/cow-a', [])] });
  const waits = aRemoteJob({ id: 'w', state: 'queued', message: 'waits for room', attempts: [] });
  assert.deepEqual(groupJobs([aRemoteJob(), sent('x'), waits, sent('y')]), [
    { place: 'a', state: 'succeeded', why: '"static" chose it', jobs: 2 },
    { place: '-', state: 'queued', why: 'waits for room', jobs: 1 },
    { place: 'home', state: 'succeeded', why: 'there was room', jobs: 1 },
  ]);
});
