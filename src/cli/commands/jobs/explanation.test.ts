import assert from 'node:assert/strict';
import { test } from 'node:test';
import { groupJobs } from './explain.ts';
import { explainJob, type Rules } from './explanation.ts';
import { at, BEGAN, decision, step, toldJob } from './told-job.fixture.ts';
import type { ToldJob } from './told-job.ts';

const MESH = { topology: 'mesh' };
const FULL = 'it needs 1 core and no node has more than 0.5 free';
const elsewhere = (place: string) => [{ place, started_at: at(100), finished_at: at(400) }];

interface Case {
  readonly name: string;
  readonly job?: Partial<ToldJob>;
  readonly rules?: Rules;
  readonly says: readonly string[];
}

const cases: readonly Case[] = [
  {
    name: 'a job that had room at home needs no decision',
    rules: MESH,
    says: [
      'cow-1 succeeded at home.',
      'It came when cow/in/a.png was written.',
      'There was room at home, so nobody else was asked.',
    ],
  },
  {
    name: 'a service without members runs where it is',
    says: [
      'cow-1 succeeded at home.',
      'It came when cow/in/a.png was written.',
      'Its service is on home alone, so it runs there.',
    ],
  },
  {
    name: 'who was asked first, who was refused and who took it is told in order',
    rules: MESH,
    job: {
      attempts: elsewhere('b'),
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
      'cow-1 succeeded at b.',
      'It came when cow/in/a.png was written.',
      'home had no room for it, so members were asked.',
      'First the policy "static" chose a/cow-a (priority 0), before b/cow-b (priority 1).',
      `Then the policy "static" chose b/cow-b (priority 1). Not a/cow-a: ${FULL}.`,
    ],
  },
  {
    name: 'that nobody could take it, and that it ran at home after all',
    rules: MESH,
    job: { decisions: [decision(undefined, [{ member: 'a/cow-a', refusal: FULL }], 'random')] },
    says: [
      'cow-1 succeeded at home.',
      'It came when cow/in/a.png was written.',
      'home had no room for it, so members were asked.',
      `Nobody could take it, and it waited at home. Not a/cow-a: ${FULL}.`,
      'There was room at home before anybody else had some.',
    ],
  },
  {
    name: 'that every job is offered, and home was the best of all',
    rules: { topology: 'star', delegate_when: 'always' },
    job: {
      decisions: [decision('home/cow', [{ member: 'home/cow' }, { member: 'a/cow-a', score: 80 }], 'load-based')],
    },
    says: [
      'cow-1 succeeded at home.',
      'It came when cow/in/a.png was written.',
      'Every job of this service is offered to its members (delegate_when: always).',
      'The policy "load-based" chose home/cow (nothing is known of it), which is where it came, before a/cow-a (load 80).',
    ],
  },
  {
    name: 'how old the figures were that decided',
    rules: MESH,
    job: {
      attempts: elsewhere('a'),
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
      'cow-1 succeeded at a.',
      'It came when cow/in/a.png was written.',
      'home had no room for it, so members were asked.',
      'The policy "load-based" chose a/cow-a (load 20, 3 s before), before b/cow-b (its figures were 75 s old).',
    ],
  },
  {
    name: 'why a job may not leave',
    rules: MESH,
    job: {
      timeline: [step('accepted', 0), step('queued', 0, { reason: 'StaysHere', message: 'its input is at s3.mine' })],
    },
    says: [
      'cow-1 succeeded at home.',
      'It came when cow/in/a.png was written.',
      'It may run at home only: its input is at s3.mine.',
    ],
  },
  {
    name: 'a job that failed says where its log is',
    rules: MESH,
    job: { state: 'failed', message: 'exit code 3', trigger: 'run', attempts: elsewhere('home') },
    says: [
      'cow-1 failed at home: exit code 3. `oscar logs cow cow-1` shows what it printed.',
      'It came when cow/in/a.png was written.',
      'Whoever waits for an answer waits at home: such jobs run there.',
    ],
  },
];

for (const { name, job, rules, says } of cases) {
  test(name, () => assert.deepEqual(explainJob(toldJob(job), rules, BEGAN).sentences, says));
}

test('each step has the time until the next one, and the script its own', () => {
  const { steps } = explainJob(toldJob(), MESH, BEGAN + 5_000);
  assert.deepEqual(
    steps.map(({ state, ms, message }) => [state, ms, message]),
    [
      ['queued', 10, 'it is queued'],
      ['running', 690, 'it is running; its script took 600 ms'],
      ['succeeded', undefined, 'it is succeeded'],
    ],
  );
});

test('a step that is not over has lasted until now', () => {
  const job = toldJob({ state: 'queued', attempts: [], timeline: [step('accepted', 0), step('queued', 0)] });
  assert.deepEqual(
    explainJob(job, MESH, BEGAN + 5_000).steps.map(({ ms }) => ms),
    [5_000],
  );
});

test('jobs are counted by where they ran and why, most of them first', () => {
  const sent = (id: string) => toldJob({ id, attempts: elsewhere('a'), decisions: [decision('a/cow-a', [])] });
  const waits = toldJob({ id: 'w', state: 'queued', message: 'waits for room', attempts: [] });
  assert.deepEqual(groupJobs([toldJob(), sent('x'), waits, sent('y')]), [
    { place: 'a', state: 'succeeded', why: '"static" chose it', jobs: 2 },
    { place: '-', state: 'queued', why: 'waits for room', jobs: 1 },
    { place: 'home', state: 'succeeded', why: 'there was room', jobs: 1 },
  ]);
});
