import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../../cluster/eventually.ts';
import type { Snapshot } from '../policy/index.ts';
import { Scoreboard } from './scoreboard.ts';

const SNAPSHOT: Snapshot = { nodes: [{ cpu: 4000, memory: 8, gpu: 0 }], freeCpu: 4000, nodeCount: 1, age: 0 };
const JOB = { cpu: 1000, memory: 2, gpu: 0 };

/** A board whose cluster answers when the test says so, and a clock that stands still. */
function scene() {
  const clock = { ms: 1_000 };
  const questions: PromiseWithResolvers<Snapshot>[] = [];
  const board = {
    place: 'b',
    ask: () => {
      const question = Promise.withResolvers<Snapshot>();
      questions.push(question);
      return question.promise;
    },
  };
  const problems: unknown[] = [];
  const scores = new Scoreboard({
    elapsed: () => clock.ms,
    chance: () => 0.5,
    report: (problem) => problems.push(problem),
  });
  const answered = async (snapshot: Partial<Snapshot> = {}) => {
    questions.at(-1)?.resolve({ ...SNAPSHOT, ...snapshot });
    await eventually(() => assert.ok(scores.snapshotOf('b') !== undefined));
  };
  return { clock, questions, board, problems, scores, answered };
}

test('nobody is asked before somebody is interested', () => {
  const { questions, scores } = scene();
  assert.equal(scores.snapshotOf('b'), undefined);
  assert.equal(questions.length, 0);
});

test('the first who is interested has the cluster asked at once, and does not wait for it', async (t) => {
  const { questions, board, scores, answered } = scene();
  t.after(() => scores.close());
  scores.interested([board]);
  scores.interested([board]);
  assert.equal(questions.length, 1);
  assert.equal(scores.snapshotOf('b'), undefined);
  await answered();
  assert.equal(scores.snapshotOf('b')?.freeCpu, 4000);
});

test('a snapshot ages from the moment that it was asked for', async (t) => {
  const { clock, board, scores, answered } = scene();
  t.after(() => scores.close());
  scores.interested([board]);
  clock.ms += 300;
  await answered();
  clock.ms += 700;
  assert.equal(scores.snapshotOf('b')?.age, 1_000);
});

test('a cluster that does not answer is reported, stays unknown and is not asked again at once', async (t) => {
  const { questions, board, problems, scores } = scene();
  t.after(() => scores.close());
  scores.interested([board]);
  questions[0]?.reject(new Error('away'));
  await eventually(() => assert.ok(problems.length === 1));
  scores.interested([board]);
  assert.equal(questions.length, 1);
  assert.equal(scores.snapshotOf('b'), undefined);
});

test('a cluster that stopped answering keeps what it said, ever older', async (t) => {
  const { clock, questions, board, problems, scores, answered } = scene();
  t.after(() => scores.close());
  scores.interested([board]);
  await answered();
  clock.ms += 100_000;
  scores.interested([board]);
  assert.equal(questions.length, 2);
  questions[1]?.reject(new Error('away'));
  await eventually(() => assert.ok(problems.length === 1));
  assert.equal(scores.snapshotOf('b')?.age, 100_000);
});

test('what nobody is interested in any more is forgotten', async (t) => {
  const { clock, board, scores, answered } = scene();
  t.after(() => scores.close());
  scores.interested([board]);
  await answered();
  clock.ms += 3_600_000;
  scores.interested([{ ...board, place: 'c' }]);
  assert.equal(scores.snapshotOf('b'), undefined);
});

test('what was sent counts at once, and no more when it was refused', (t) => {
  const { board, scores } = scene();
  t.after(() => scores.close());
  scores.interested([board]);
  const shipment = scores.send('b', JOB);
  scores.send('b', JOB);
  assert.deepEqual(scores.inFlightTo('b'), { cpu: 2000, memory: 4, gpu: 0 });
  shipment.refused();
  shipment.refused();
  assert.deepEqual(scores.inFlightTo('b'), JOB);
});

test('what arrived before a snapshot was asked for is in it; what arrived after, or not yet, is not', async (t) => {
  const { clock, questions, board, scores, answered } = scene();
  t.after(() => scores.close());
  scores.interested([board]);
  const before = scores.send('b', JOB);
  await answered();
  before.arrived();
  clock.ms += 100_000;
  scores.interested([board]);
  assert.equal(questions.length, 2);
  const after = scores.send('b', JOB);
  scores.send('b', JOB);
  after.arrived();
  questions[1]?.resolve(SNAPSHOT);
  await eventually(() => assert.ok(scores.inFlightTo('b').cpu === 2000));
});

test('what a cluster took long ago, and never said what is free, is forgotten', (t) => {
  const { clock, board, scores } = scene();
  t.after(() => scores.close());
  scores.interested([board]);
  for (let sent = 0; sent < 5; sent++) scores.send('b', JOB).arrived();
  clock.ms += 60_000;
  scores.send('b', JOB).arrived();
  assert.equal(scores.inFlightTo('b').cpu, 6_000);
  clock.ms += 1;
  scores.send('b', JOB);
  assert.equal(scores.inFlightTo('b').cpu, 2_000);
});

test('durations are averaged, the newest counting most', async (t) => {
  const { board, scores, answered } = scene();
  t.after(() => scores.close());
  scores.interested([board]);
  await answered();
  scores.ended('b', 10);
  assert.equal(scores.snapshotOf('b')?.meanDuration, 10);
  scores.ended('b', 20);
  assert.equal(scores.snapshotOf('b')?.meanDuration, 12);
});

test('how long our jobs took there counts before what the cluster says of all', async (t) => {
  const { board, scores, answered } = scene();
  t.after(() => scores.close());
  scores.interested([board]);
  await answered({ meanDuration: 40 });
  assert.equal(scores.snapshotOf('b')?.meanDuration, 40);
  scores.ended('b', 10);
  assert.equal(scores.snapshotOf('b')?.meanDuration, 10);
});
