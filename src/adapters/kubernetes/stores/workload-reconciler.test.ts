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
    name: 'a delegated job releases its quota',
    job: { state: 'delegated' },
    of: waiting,
    does: 'leave',
  },
  {
    name: 'a job whose results are being committed releases its quota',
    job: { state: 'committing' },
    of: waiting,
    does: 'leave',
  },
  { name: 'a job taken from another cluster keeps its quota', job: { state: 'committing', taken }, of: waiting },
  { name: 'a job that is only offered keeps its quota', job: { state: 'offering' }, of: waiting },
  { name: 'a deactivated Workload stays deactivated', job: { state: 'delegated' }, of: left },
  { name: 'a job that has come back is queued again', job: { state: 'queued' }, of: left, does: 'return' },
  { name: 'a Workload deactivated by an operator stays as it is', job: { state: 'queued' }, of: stopped },
  { name: 'a running job keeps its quota', job: { state: 'running' }, of: waiting },
  { name: 'a finished Workload stays as it is', job: { state: 'delegated' }, of: over },
  { name: 'a job without a Workload is skipped', job: { state: 'delegated' } },
];
for (const { name, job, of, does } of cases)
  test(`workload reconciler: ${name}`, () => assert.equal(workloadChange(job, of), does));

const held: { name: string; state: JobState; suspended: boolean; of?: Seen; says?: RegExp }[] = [
  { name: 'a suspended job waits', state: 'queued', suspended: true, says: /^waits for its queue lq$/ },
  { name: 'an admitted job does not wait', state: 'queued', suspended: false },
  {
    name: 'a job that has just come back waits, before Kueue has seen it',
    state: 'queued',
    suspended: false,
    of: left,
    says: /comes back/,
  },
  {
    name: 'a running job that is suspended may not continue',
    state: 'running',
    suspended: true,
    says: /does not let it go on/,
  },
  { name: 'a running job continues', state: 'running', suspended: false, of: left },
  { name: 'a finished job does not wait', state: 'failed', suspended: true },
];
for (const { name, state, suspended, of, says } of held) {
  test(`suspension: ${name}`, () => {
    const said = suspensionReason(
      { uid: 'u', suspended, queue: 'lq' },
      { state },
      { workloadFor: () => of && { ...of, metadata: { ...of.metadata, uid: 'w', resourceVersion: '1' } } },
    );
    if (says) assert.match(said ?? '', says);
    else assert.equal(said, undefined);
  });
}

test('suspension: a job without a queue does not wait, and none does without Kueue', () => {
  const entry = { uid: 'u', suspended: true };
  assert.equal(suspensionReason(entry, { state: 'queued' }, { workloadFor: () => undefined }), undefined);
  assert.equal(suspensionReason({ ...entry, queue: 'lq' }, { state: 'queued' }, undefined), undefined);
});
