import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JobState, TakenJob } from '../../../model/job/index.ts';
import { DELEGATED_ANNOTATION } from '../kueue/index.ts';
import { suspensionReason, workloadChange } from './workload-reconciler.ts';

type Seen = NonNullable<Parameters<typeof workloadChange>[1]>;

const taken: TakenJob = { uid: 'u', member: 'm', job: { service: 's', id: 'i' }, epoch: 1, payload: '' };
const waiting: Seen = { metadata: { name: 'w' }, spec: { active: true } };
const left: Seen = {
  metadata: { name: 'w', annotations: { [DELEGATED_ANNOTATION]: 'true' } },
  spec: { active: false },
};
const stopped: Seen = { metadata: { name: 'w' }, spec: { active: false } };
const over: Seen = { ...waiting, status: { conditions: [{ type: 'Finished', status: 'True' }] } };

const cases: { name: string; job: { state: JobState; taken?: TakenJob }; of?: Seen; does?: string }[] = [
  {
    name: 'one that runs elsewhere gives its quota back',
    job: { state: 'delegated' },
    of: waiting,
    does: 'leave',
  },
  { name: 'so does one whose results are brought', job: { state: 'committing' }, of: waiting, does: 'leave' },
  { name: 'one that came from elsewhere runs here', job: { state: 'committing', taken }, of: waiting },
  { name: 'one that is only offered keeps its place', job: { state: 'offering' }, of: waiting },
  { name: 'what has left has left', job: { state: 'delegated' }, of: left },
  { name: 'one that has come back waits again', job: { state: 'queued' }, of: left, does: 'return' },
  { name: 'what others have stopped is theirs', job: { state: 'queued' }, of: stopped },
  { name: 'one that runs here is where it belongs', job: { state: 'running' }, of: waiting },
  { name: 'nothing is done with what is over', job: { state: 'delegated' }, of: over },
  { name: 'nor with what Kueue does not know yet', job: { state: 'delegated' } },
];
for (const { name, job, of, does } of cases) test(name, () => assert.equal(workloadChange(job, of), does));

const held: { name: string; state: JobState; suspended: boolean; of?: Seen; says?: RegExp }[] = [
  { name: 'one that is suspended is held', state: 'queued', suspended: true, says: /^waits for its queue lq$/ },
  { name: 'one that was let in is not', state: 'queued', suspended: false },
  {
    name: 'one that has just come back is, before Kueue has seen it',
    state: 'queued',
    suspended: false,
    of: left,
    says: /comes back/,
  },
  {
    name: 'one that runs may not go on when it is suspended',
    state: 'running',
    suspended: true,
    says: /does not let it go on/,
  },
  { name: 'one that runs goes on', state: 'running', suspended: false, of: left },
  { name: 'what has ended is held by nobody', state: 'failed', suspended: true },
];
for (const { name, state, suspended, of, says } of held) {
  test(name, () => {
    const said = suspensionReason(
      { uid: 'u', suspended, queue: 'lq' },
      { state },
      { workloadFor: () => of && { ...of, metadata: { ...of.metadata, uid: 'w', resourceVersion: '1' } } },
    );
    if (says) assert.match(said ?? '', says);
    else assert.equal(said, undefined);
  });
}

test('what waits in no queue is held by nobody, and nothing is where there is no Kueue', () => {
  const entry = { uid: 'u', suspended: true };
  assert.equal(suspensionReason(entry, { state: 'queued' }, { workloadFor: () => undefined }), undefined);
  assert.equal(suspensionReason({ ...entry, queue: 'lq' }, { state: 'queued' }, undefined), undefined);
});
