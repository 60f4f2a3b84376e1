import assert from 'node:assert/strict';
import { test } from 'node:test';
import { audit } from './audit.ts';
import { type Answer, empty } from './differences/answers.ts';
import type { Difference } from './differences/difference.ts';
import type { Replayed } from './replay.ts';

/** One exchange that was recorded as 204, and our answer to it. */
const replayed = (status: number, carriedOn?: number): Replayed[] => [
  {
    exchange: {
      n: 1,
      phase: 'main',
      group: 'test',
      request: { method: 'PUT', path: '/x', headers: {} },
      response: { status: 204, headers: {}, body_kind: 'empty', body: '' },
    },
    ours: answer(status),
    ...(carriedOn !== undefined && { carriedOn: answer(carriedOn) }),
  },
];
const answer = (status: number) => ({ status, headers: {}, text: '' });

const because = (id: string, matches: number[], ours: Answer): Difference => ({
  id,
  kind: 'decision',
  title: id,
  reason: id,
  cases: [{ matches, ours }],
});

const FINE = { unexplained: [], needless: [], ambiguous: [], wrong: [], broken: [] };

const cases = [
  { name: 'an answer as recorded needs no explanation', answers: replayed(204), table: [], found: FINE },
  {
    name: 'an answer that differs needs one',
    answers: replayed(400),
    table: [],
    found: { ...FINE, unexplained: ['#1 PUT /x\nstatus 204 was recorded, ours is 400'] },
  },
  {
    name: 'an answer that differs as its explanation says is fine',
    answers: replayed(400),
    table: [because('a', [1], empty(400))],
    found: FINE,
  },
  {
    name: 'an answer that differs in another way is not',
    answers: replayed(400),
    table: [because('a', [1], empty(404))],
    found: { ...FINE, wrong: ['a: #1 PUT /x: the status should be\n404\nand is\n400'] },
  },
  {
    name: 'an explanation for an answer as recorded must go',
    answers: replayed(204),
    table: [because('a', [1], empty(400))],
    found: { ...FINE, needless: ['a: #1 PUT /x is as recorded'] },
  },
  {
    name: 'so must one for an exchange that does not exist',
    answers: replayed(204),
    table: [because('a', [2], empty(400))],
    found: { ...FINE, needless: ['a: there is no exchange #2'] },
  },
  {
    name: 'two explanations are one too many',
    answers: replayed(400),
    table: [because('a', [1], empty(400)), because('b', [1], empty(400))],
    found: { ...FINE, ambiguous: ['#1 PUT /x: a, b'] },
  },
  {
    name: 'a substitute must succeed',
    answers: replayed(400, 409),
    table: [because('a', [1], empty(400))],
    found: { ...FINE, broken: ['the substitute for #1 PUT /x is answered 409 '] },
  },
  {
    name: 'a substitute must be needed',
    answers: replayed(204, 204),
    table: [],
    found: { ...FINE, broken: ['#1 PUT /x is as recorded and needs no substitute'] },
  },
];

for (const { name, answers, table, found } of cases) test(name, () => assert.deepEqual(audit(answers, table), found));
