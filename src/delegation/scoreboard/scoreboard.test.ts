import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Snapshot } from '../../model/cluster-snapshot.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import { Scoreboard } from './scoreboard.ts';

const SNAPSHOT: Snapshot = { nodes: [{ cpu: 4000, memory: 8, gpu: 0 }], freeCpu: 4000, nodeCount: 1, age: 0 };
const JOB = { cpu: 1000, memory: 2, gpu: 0 };

/** A scoreboard whose cluster answers when the test resolves a request, and a clock that the test advances. */
function scene() {
  const clock = { ms: 1_000 };
  const questions: PromiseWithResolvers<Snapshot>[] = [];
  const board = {
    endpoint: 'b',
    fetchSnapshot: () => {
      const question = Promise.withResolvers<Snapshot>();
      questions.push(question);
      return question.promise;
    },
  };
  const problems: unknown[] = [];
  const scores = new Scoreboard({
    elapsed: () => clock.ms,
    random: () => 0.5,
    report: (problem) => problems.push(problem),
  });
  const answered = async (snapshot: Partial<Snapshot> = {}) => {
    questions.at(-1)?.resolve({ ...SNAPSHOT, ...snapshot });
    await eventually(() => assert.ok(scores.snapshotFor('b') !== undefined));
  };
  return { clock, questions, board, problems, scores, answered };
}

test('scoreboard: no cluster is asked before it is watched', () => {
  const { questions, scores } = scene();
  assert.equal(scores.snapshotFor('b'), undefined);
  assert.equal(questions.length, 0);
});

test('scoreboard: the first watch asks the cluster at once, without waiting for the answer', async (t) => {
  const { questions, board, scores, answered } = scene();
  t.after(() => scores.close());
  scores.watch([board]);
  scores.watch([board]);
  assert.equal(questions.length, 1);
  assert.equal(scores.snapshotFor('b'), undefined);
  await answered();
  assert.equal(scores.snapshotFor('b')?.freeCpu, 4000);
});

test('scoreboard: the age of a snapshot counts from its request', async (t) => {
  const { clock, board, scores, answered } = scene();
  t.after(() => scores.close());
  scores.watch([board]);
  clock.ms += 300;
  await answered();
  clock.ms += 700;
  assert.equal(scores.snapshotFor('b')?.age, 1_000);
});

test('scoreboard: a cluster that does not answer is reported, stays unknown and is not asked again at once', async (t) => {
  const { questions, board, problems, scores } = scene();
  t.after(() => scores.close());
  scores.watch([board]);
  questions[0]?.reject(new Error('away'));
  await eventually(() => assert.ok(problems.length === 1));
  scores.watch([board]);
  assert.equal(questions.length, 1);
  assert.equal(scores.snapshotFor('b'), undefined);
});

test('scoreboard: the snapshot of a cluster that stopped answering is kept and gets older', async (t) => {
  const { clock, questions, board, problems, scores, answered } = scene();
  t.after(() => scores.close());
  scores.watch([board]);
  await answered();
  clock.ms += 100_000;
  scores.watch([board]);
  assert.equal(questions.length, 2);
  questions[1]?.reject(new Error('away'));
  await eventually(() => assert.ok(problems.length === 1));
  assert.equal(scores.snapshotFor('b')?.age, 100_000);
});

test('scoreboard: a cluster that is no longer watched is forgotten', async (t) => {
  const { clock, board, scores, answered } = scene();
  t.after(() => scores.close());
  scores.watch([board]);
  await answered();
  clock.ms += 3_600_000;
  scores.watch([{ ...board, endpoint: 'c' }]);
  assert.equal(scores.snapshotFor('b'), undefined);
});

test('in flight: an offered job counts at once, until it is rejected', (t) => {
  const { board, scores } = scene();
  t.after(() => scores.close());
  scores.watch([board]);
  const shipment = scores.addInFlight('b', JOB);
  scores.addInFlight('b', JOB);
  assert.deepEqual(scores.inFlightFor('b'), { cpu: 2000, memory: 4, gpu: 0 });
  shipment.rejected();
  shipment.rejected();
  assert.deepEqual(scores.inFlightFor('b'), JOB);
});

test('in flight: a job that was accepted before a snapshot was requested is in it; a later or unanswered one is not', async (t) => {
  const { clock, questions, board, scores, answered } = scene();
  t.after(() => scores.close());
  scores.watch([board]);
  const before = scores.addInFlight('b', JOB);
  await answered();
  before.accepted();
  clock.ms += 100_000;
  scores.watch([board]);
  assert.equal(questions.length, 2);
  const after = scores.addInFlight('b', JOB);
  scores.addInFlight('b', JOB);
  after.accepted();
  questions[1]?.resolve(SNAPSHOT);
  await eventually(() => assert.ok(scores.inFlightFor('b').cpu === 2000));
});

test('in flight: jobs accepted long ago by a cluster without snapshots are forgotten', (t) => {
  const { clock, board, scores } = scene();
  t.after(() => scores.close());
  scores.watch([board]);
  for (let sent = 0; sent < 5; sent++) scores.addInFlight('b', JOB).accepted();
  clock.ms += 60_000;
  scores.addInFlight('b', JOB).accepted();
  assert.equal(scores.inFlightFor('b').cpu, 6_000);
  clock.ms += 1;
  scores.addInFlight('b', JOB);
  assert.equal(scores.inFlightFor('b').cpu, 2_000);
});

test('scoreboard: the durations of jobs are a moving average', async (t) => {
  const { board, scores, answered } = scene();
  t.after(() => scores.close());
  scores.watch([board]);
  await answered();
  scores.noteDuration('b', 'cow', 10);
  assert.equal(scores.snapshotFor('b')?.meanDuration, 10);
  scores.noteDuration('b', 'cow', 20);
  assert.equal(scores.snapshotFor('b')?.meanDuration, 12);
});

test('scoreboard: the duration of our jobs takes precedence over the figure that the cluster reports', async (t) => {
  const { board, scores, answered } = scene();
  t.after(() => scores.close());
  scores.watch([board]);
  await answered({ meanDuration: 40 });
  assert.equal(scores.snapshotFor('b')?.meanDuration, 40);
  scores.noteDuration('b', 'cow', 10);
  assert.equal(scores.snapshotFor('b')?.meanDuration, 10);
});

test('in flight: a job that ends before a snapshot includes it frees its capacity once', async (t) => {
  const { board, scores, answered } = scene();
  t.after(() => scores.close());
  scores.watch([board]);
  await answered();
  const shipment = scores.addInFlight('b', JOB);
  scores.addInFlight('b', JOB);
  shipment.accepted();
  shipment.ended();
  shipment.ended();
  assert.deepEqual(scores.inFlightFor('b'), JOB);
});

test('in flight: the capacity of an ended job that the snapshot includes counts as free until the next snapshot', async (t) => {
  const { clock, questions, board, scores, answered } = scene();
  t.after(() => scores.close());
  scores.watch([board]);
  const shipment = scores.addInFlight('b', JOB);
  shipment.accepted();
  await answered();
  clock.ms += 100_000;
  scores.watch([board]);
  questions[1]?.resolve(SNAPSHOT);
  await eventually(() => assert.equal(scores.inFlightFor('b').cpu, 0));
  shipment.ended();
  shipment.ended();
  assert.deepEqual(scores.inFlightFor('b'), { cpu: -1000, memory: -2, gpu: 0 });
  clock.ms += 100_000;
  scores.watch([board]);
  questions[2]?.resolve(SNAPSHOT);
  await eventually(() => assert.equal(scores.inFlightFor('b').cpu, 0));
});

test('no room: a rejection counts for the same or a larger demand, until a job ends there', (t) => {
  const { board, scores } = scene();
  t.after(() => scores.close());
  scores.watch([board]);
  const shipment = scores.addInFlight('b', JOB);
  scores.noteNoRoom('b', 'b/demo', JOB, 'no room');
  const reasonFor = (cpu: number, member = 'b/demo') => scores.noRoomReason('b', member, { ...JOB, cpu });
  assert.deepEqual([reasonFor(1000), reasonFor(2000), reasonFor(999)], ['no room', 'no room', undefined]);
  assert.equal(reasonFor(1000, 'b/other'), undefined);
  shipment.ended();
  assert.equal(reasonFor(1000), undefined);
});

test('no room: a rejection ends with the next snapshot, or after a while without one', async (t) => {
  const { clock, questions, board, scores } = scene();
  t.after(() => scores.close());
  const changes: string[] = [];
  scores.onChange((place, change) => changes.push(`${place} ${change}`));
  scores.watch([board]);
  clock.ms += 1;
  scores.noteNoRoom('b', 'b/demo', JOB, 'no room');
  questions[0]?.resolve(SNAPSHOT);
  await eventually(() => assert.deepEqual(changes, ['b room']));
  // This snapshot was requested before the rejection.
  assert.equal(scores.noRoomReason('b', 'b/demo', JOB), 'no room');
  clock.ms += 4_990;
  scores.onReachable('b');
  questions[1]?.resolve(SNAPSHOT);
  await eventually(() => assert.equal(scores.noRoomReason('b', 'b/demo', JOB), undefined));

  scores.noteNoRoom('b', 'b/demo', JOB, 'no room');
  clock.ms += 5_000;
  assert.equal(scores.noRoomReason('b', 'b/demo', JOB), undefined);
});

test('return: a cluster that answered another request is asked at once, and its answer counts as a return', async (t) => {
  const { questions, board, problems, scores } = scene();
  t.after(() => scores.close());
  const changes: string[] = [];
  scores.onChange((place, change) => changes.push(`${place} ${change}`));
  scores.watch([board]);
  questions[0]?.reject(new Error('away'));
  await eventually(() => assert.equal(problems.length, 1));
  assert.deepEqual(changes, []);
  scores.onReachable('b');
  assert.equal(questions.length, 2);
  questions[1]?.resolve(SNAPSHOT);
  await eventually(() => assert.deepEqual(changes, ['b back']));
  scores.onReachable('elsewhere');
  assert.equal(questions.length, 2);
});

test('return: an unreachable cluster that sends a request is asked, at a limited rate', async (t) => {
  const { clock, questions, board, problems, scores } = scene();
  t.after(() => scores.close());
  let hopes = 0;
  const heard = () => scores.onRequestFrom('b', () => hopes++);
  scores.watch([board]);
  heard();
  questions[0]?.reject(new Error('away'));
  await eventually(() => assert.equal(problems.length, 1));
  clock.ms += 4_999;
  heard();
  assert.deepEqual([questions.length, hopes], [1, 0]);
  clock.ms += 1;
  heard();
  assert.deepEqual([questions.length, hopes], [2, 1]);
});

test('return: a watched cluster is asked about every ten seconds, however long it was unreachable', async (t) => {
  const { clock, questions, board, problems, scores } = scene();
  t.after(() => scores.close());
  for (let failures = 1; failures <= 6; failures++) {
    scores.watch([board]);
    assert.equal(questions.length, failures);
    questions.at(-1)?.reject(new Error(`away ${failures}`));
    await eventually(() => assert.equal(problems.length, failures));
    clock.ms += 10_000;
  }
});

test('cause: an error is reported when it is new, and again after an answer', async (t) => {
  const { clock, questions, board, problems, scores } = scene();
  t.after(() => scores.close());
  const asked = async (answer: Snapshot | Error) => {
    clock.ms += 10_000;
    scores.watch([board]);
    if (answer instanceof Error) questions.at(-1)?.reject(answer);
    else questions.at(-1)?.resolve(answer);
    const count = questions.length;
    // The next request is sent only after this one has ended.
    await eventually(() => {
      clock.ms += 10_000;
      scores.watch([board]);
      assert.equal(questions.length, count + 1);
    });
  };
  for (const cause of ['refused', 'refused', 'too late']) await asked(new Error(cause));
  await asked(SNAPSHOT);
  await asked(new Error('too late'));
  assert.deepEqual(
    problems.map((problem) => (problem as Error).message),
    ['refused', 'too late', 'too late'],
  );
});
