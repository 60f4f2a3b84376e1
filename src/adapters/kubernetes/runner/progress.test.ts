import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AT, at, podWith, running, said, terminated, WAITED, waiting } from './pods.fixture.ts';
import { isOver, mayHaveBegun, readProgress } from './progress.ts';

const unscheduled = {
  phase: 'Pending',
  conditions: [
    { type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message: '0/3 nodes: insufficient cpu' },
  ],
} as const;

const DONE = terminated(0);

for (const { name, pod, message } of [
  {
    name: 'a pod that no node takes waits, and says what the scheduler says',
    pod: podWith({}, unscheduled),
    message: 'waits for a node: 0/3 nodes: insufficient cpu',
  },
  {
    name: 'a pod that nobody has looked at waits for a node',
    pod: { ...podWith({}, { phase: 'Pending' }), spec: {} },
    message: 'waits for a node',
  },
  {
    name: 'a node that has it prepares it',
    pod: podWith({ in: waiting('PodInitializing') }, { phase: 'Pending' }),
    message: 'node-1 prepares its pod',
  },
  {
    name: 'stage-in at work fetches the input',
    pod: podWith({ in: running(), script: waiting('PodInitializing') }, { phase: 'Pending' }),
    message: 'its input is being fetched',
  },
  {
    name: 'with the input there, the image is what it waits for',
    pod: podWith({ in: DONE, out: running(), script: waiting('PodInitializing') }, { phase: 'Pending' }),
    message: 'node-1 gets its image',
  },
] as const) {
  test(name, () => assert.deepEqual(readProgress(pod), { phase: 'preparing', message }));
}

for (const { word, reason, final } of [
  { word: 'ErrImagePull', reason: 'ImageFailed', final: false },
  { word: 'ImagePullBackOff', reason: 'ImageFailed', final: false },
  { word: 'InvalidImageName', reason: 'ImageFailed', final: true },
  { word: 'ErrImageNeverPull', reason: 'ImageFailed', final: true },
  { word: 'CreateContainerConfigError', reason: 'StartFailed', final: false },
  { word: 'CreateContainerError', reason: 'StartFailed', final: false },
] as const) {
  test(`${word} hinders a script, ${final ? 'for good' : 'as long as it lasts'}, in the kubelet's words`, () => {
    const { hindrance } = readProgress(podWith({ in: DONE, out: running(), script: waiting(word, 'no such thing') }));
    assert.deepEqual([hindrance?.reason, hindrance?.final], [reason, final]);
    assert.match(hindrance?.message ?? '', /: no such thing$/);
  });
}

test('progress: an image that runs as root where root is forbidden is rejected for good, with advice', () => {
  const words = 'container has runAsNonRoot and image will run as root (pod: "x", container: oscar-container)';
  const script = waiting('CreateContainerConfigError', words);
  const { hindrance } = readProgress(podWith({ in: DONE, out: running(), script }));
  assert.deepEqual([hindrance?.reason, hindrance?.final], ['StartFailed', true]);
  assert.match(hindrance?.message ?? '', /OSCAR_POD_NON_ROOT.*USER by number.*The node says: container has/);
});

for (const { name, pod, expected } of [
  { name: 'one whose input is fetched', pod: podWith({ in: running() }), expected: false },
  { name: 'one whose input is there', pod: podWith({ in: DONE, script: waiting('PodInitializing') }), expected: true },
  {
    name: 'one whose image cannot be had',
    pod: podWith({ in: DONE, script: waiting('ErrImagePull') }),
    expected: false,
  },
  { name: 'one that could not be prepared', pod: podWith({ in: terminated(1) }), expected: false },
  { name: 'one that is known to run', pod: podWith({ in: DONE, script: running() }), expected: false },
]) {
  test(`${name} ${expected ? 'may have begun unnoticed' : 'has not begun unnoticed'}`, () =>
    assert.equal(mayHaveBegun(pod), expected));
}

test('progress: a missing image of the manager is distinguished from one of the service', () => {
  const { hindrance } = readProgress(podWith({ in: waiting('ErrImagePull', 'gone') }));
  assert.match(hindrance?.message ?? '', /stage-in, of the manager's own image\): gone$/);
});

test('progress: a container that is being created is no problem', () => {
  assert.equal(readProgress(podWith({ script: waiting('ContainerCreating') })).hindrance, undefined);
});

test('progress: a script runs from the time that the kubelet reports', () => {
  const pod = podWith({ in: DONE, out: running(), script: running(12) });
  assert.deepEqual(readProgress(pod), { phase: 'running', startedAt: AT + 12_000 });
});

test('progress: when stage-out is ready, the script has ended and its output is being uploaded', () => {
  const pod = podWith({ in: DONE, out: { ...running(), ready: true }, script: running(12) });
  assert.deepEqual(readProgress(pod), { phase: 'uploading', startedAt: AT + 12_000 });
});

test('progress: a failed script has no output to upload', () => {
  assert.equal(readProgress(podWith({ in: DONE, out: running(), script: terminated(3) })).phase, 'running');
});

const deletion = { deletionTimestamp: at(100), deletionGracePeriodSeconds: 10 };
const onNoNode = { ...podWith({}, { phase: 'Pending' }, deletion), spec: {} };

for (const { name, pod, seconds, over } of [
  { name: 'a pod that runs is not over', pod: podWith({ script: running() }), seconds: 1e6, over: false },
  { name: 'one that succeeded is', pod: podWith({}, { phase: 'Succeeded' }), seconds: 0, over: true },
  { name: 'one that failed is', pod: podWith({}, { phase: 'Failed' }), seconds: 0, over: true },
  {
    name: 'one whose script has succeeded is, when everything is delivered',
    pod: podWith({ in: DONE, out: said({}), script: DONE }),
    seconds: 0,
    over: true,
  },
  {
    name: 'whoever is beside the script may have been started again before it ended',
    pod: podWith({ in: DONE, out: { ...running(), before: said({}).terminated }, script: DONE }),
    seconds: 0,
    over: true,
  },
  {
    name: 'one is not that only says so',
    pod: podWith({ in: DONE, out: said({}), script: running() }),
    seconds: 0,
    over: false,
  },
  {
    name: 'of one that has failed its node may say more',
    pod: podWith({ in: DONE, out: said({ outcome: 'failed', reason: 'ScriptFailed' }), script: terminated(1) }),
    seconds: 0,
    over: false,
  },
  { name: 'one that is being deleted and was on no node is', pod: onNoNode, seconds: 90, over: true },
  {
    name: 'one that is being deleted is waited for',
    pod: podWith({ script: running() }, {}, deletion),
    seconds: 105,
    over: false,
  },
  {
    name: 'until its node has said nothing for too long',
    pod: podWith({ script: running() }, {}, deletion),
    seconds: 130,
    over: true,
  },
]) {
  test(name, () => assert.equal(isOver(pod, AT + seconds * 1_000, 30_000), over));
}

for (const { name, pod, phase, startedAt } of [
  {
    name: 'a pod that has waited prepares until its script has begun, though its container runs',
    pod: podWith({ out: running(), script: running() }, {}, WAITED),
    phase: 'preparing',
    startedAt: undefined,
  },
  {
    name: 'since then it runs, from when it has got its orders at the earliest',
    pod: podWith({ out: running(), script: { ...running(), ready: true } }, {}, WAITED),
    phase: 'running',
    startedAt: AT + 5_000,
  },
  {
    name: 'and delivers when stage-out says that it has ended',
    pod: podWith({ out: { ...running(), ready: true }, script: { ...running(), ready: true } }, {}, WAITED),
    phase: 'uploading',
    startedAt: AT + 5_000,
  },
]) {
  test(name, () => {
    const progress = readProgress(pod);
    assert.equal(progress.phase, phase);
    assert.equal('startedAt' in progress ? progress.startedAt : undefined, startedAt);
  });
}
