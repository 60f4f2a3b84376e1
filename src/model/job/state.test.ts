import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import {
  JOB_STATES,
  type JobProgress,
  type JobState,
  KEPT_ATTEMPTS,
  KEPT_TRANSITIONS,
  type Transition,
} from './job-record.ts';
import { accepted, advance, canTransition, isFinal, toPhase } from './state.ts';

const to = (state: JobState, at: number): Transition => ({
  state,
  at,
  reason: 'R',
  message: `now ${state}`,
  place: 'c',
});
const steps = fc.array(fc.constantFrom(...JOB_STATES), { maxLength: 60 });

/** Takes every step that there is a way for. */
function live(wanted: readonly JobState[]): { progress: JobProgress; taken: JobState[] } {
  let progress = accepted(0, 'c');
  const taken: JobState[] = [];
  for (const [index, state] of wanted.entries()) {
    const change = advance(progress, to(state, index + 1));
    if (!change) continue;
    progress = { ...progress, ...change };
    taken.push(state);
  }
  return { progress, taken };
}

test('job state: a final state never changes', () => {
  fc.assert(
    fc.property(steps, (wanted) => {
      const { progress, taken } = live(wanted);
      const end = taken.findIndex(isFinal);
      assert.ok(end === -1 || end === taken.length - 1);
      assert.equal(isFinal(progress.state), end !== -1);
    }),
  );
});

test('job state: the timeline keeps the first transition and the last ones, in order', () => {
  fc.assert(
    fc.property(steps, (wanted) => {
      const { progress, taken } = live(wanted);
      const told = progress.timeline.map(({ state }) => state);
      const whole = ['accepted', 'queued', ...taken];
      assert.equal(told[0], 'accepted');
      assert.deepEqual(told.slice(1), whole.slice(1).slice(-(KEPT_TRANSITIONS - 1)));
      assert.ok(progress.timeline.every(({ at }, i) => i === 0 || at >= (progress.timeline[i - 1]?.at ?? 0)));
    }),
  );
});

test('job state: only listed transitions are possible, and every state leads to a final one', () => {
  for (const from of JOB_STATES) {
    for (const next of JOB_STATES) {
      const progress = { ...accepted(0, 'c'), state: from };
      assert.equal(advance(progress, to(next, 1)) !== undefined, canTransition(from, next));
    }
    assert.ok(isFinal(from) || JOB_STATES.some((next) => isFinal(next) && canTransition(from, next)), from);
  }
});

test('job state: a committing job is never queued again', () => {
  for (const state of JOB_STATES) assert.equal(canTransition('committing', state), isFinal(state));
});

test('job state: only the last attempts are kept', () => {
  const attempts = Array.from({ length: 9 }, (_, epoch) => ({ name: `a-${epoch}`, epoch, place: 'c' }));
  const change = advance(accepted(0, 'c'), to('running', 1), { attempts });
  assert.deepEqual(change?.attempts, attempts.slice(-KEPT_ATTEMPTS));
});

test('job state: the Go form has four phases', () => {
  assert.deepEqual(JOB_STATES.map(toPhase), [
    'Pending',
    'Pending',
    'Pending',
    'Running',
    'Running',
    'Running',
    'Succeeded',
    'Failed',
    'Failed',
  ]);
});
