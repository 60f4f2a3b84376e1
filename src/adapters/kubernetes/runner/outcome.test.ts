import assert from 'node:assert/strict';
import { test } from 'node:test';
import { outcomeWithoutPod, type PodFacts, podOutcome } from './outcome.ts';
import type { Pod } from './pod.ts';
import { AT, at, podWith, running, said, terminated, WAITED, waiting } from './pods.fixture.ts';

const FACTS: PodFacts = { timeout: 300, memory: 48 * 2 ** 20 };
const NOW = AT + 60_000;
const DONE = terminated(0);
const FAILED = { phase: 'Failed' } as const;
const wanted = (more: Partial<PodFacts['wanted']> = {}): PodFacts => ({
  ...FACTS,
  wanted: { outcome: 'stopped', reason: 'Stopped', message: 'it was stopped: cancelled', at: NOW, ...more },
});
const late = wanted({ outcome: 'failed', reason: 'Timeout', message: 'the script did not end within 0.3 s' });
const deleted = { deletionTimestamp: at(25), deletionGracePeriodSeconds: 10 };
const disrupted = (reason: string) => ({
  ...FAILED,
  conditions: [{ type: 'DisruptionTarget', status: 'True', reason, message: 'why' }],
});

interface Case {
  readonly name: string;
  readonly pod: Pod;
  readonly facts?: PodFacts;
  readonly outcome?: string;
  readonly reason: string;
  readonly says: RegExp;
  readonly exitCode?: number;
  readonly startedAt?: number | undefined;
}

const cases: Case[] = [
  {
    name: 'exit code 0, and everything delivered',
    pod: podWith({ in: DONE, out: said({}), script: terminated(0) }, { phase: 'Succeeded' }),
    outcome: 'succeeded',
    reason: 'Completed',
    says: /exit code 0/,
    exitCode: 0,
  },
  {
    name: 'the words of stage-out are found after it was started again, too',
    pod: podWith({
      in: DONE,
      script: terminated(0),
      out: { ...terminated(143), before: said({}).terminated },
    }),
    outcome: 'succeeded',
    reason: 'Completed',
    says: /exit code 0/,
    exitCode: 0,
  },
  {
    name: 'what was delivered is delivered, though somebody wanted it to stop',
    pod: podWith({ in: DONE, out: said({}), script: terminated(137) }, { ...FAILED, reason: 'DeadlineExceeded' }),
    facts: wanted(),
    outcome: 'succeeded',
    reason: 'Completed',
    says: /exit code 0/,
    exitCode: 0,
  },
  {
    name: 'a script that made stage-out believe that it has ended does not succeed by it',
    pod: podWith({ in: DONE, out: said({}), script: terminated(3) }, FAILED),
    reason: 'ScriptFailed',
    says: /exit code 3/,
    exitCode: 3,
  },
  {
    name: 'another exit code is failure',
    pod: podWith({ in: DONE, out: terminated(0), script: terminated(3) }, FAILED),
    reason: 'ScriptFailed',
    says: /exit code 3$/,
    exitCode: 3,
  },
  {
    name: 'an exit code that tells a signal names it',
    pod: podWith({ in: DONE, out: terminated(0), script: terminated(139) }, FAILED),
    reason: 'ScriptFailed',
    says: /exit code 139 \(SIGSEGV\)$/,
    exitCode: 139,
  },
  {
    name: 'an output that was not delivered',
    pod: podWith(
      {
        in: DONE,
        out: said({ outcome: 'failed', reason: 'OutputFailed', message: 'x.txt was refused' }),
        script: DONE,
      },
      { phase: 'Succeeded' },
    ),
    reason: 'OutputFailed',
    says: /x\.txt was refused/,
    exitCode: 0,
  },
  {
    name: 'an output that was given up because somebody wanted it to stop',
    pod: podWith(
      { in: DONE, out: said({ outcome: 'failed', reason: 'OutputFailed', message: 'gave up' }), script: DONE },
      { ...FAILED, reason: 'DeadlineExceeded' },
    ),
    facts: wanted(),
    reason: 'OutputFailed',
    says: /gave up/,
    exitCode: 0,
  },
  {
    name: 'exit code 0, and stage-out died without a word',
    pod: podWith({ in: DONE, out: terminated(137, { reason: 'OOMKilled' }), script: DONE }, FAILED),
    reason: 'OutputFailed',
    says: /stage-out ended with exit code 137 \(OOMKilled\)/,
    exitCode: 0,
  },
  {
    name: 'without its input',
    pod: podWith(
      {
        in: terminated(1, {
          message: JSON.stringify({
            phase: 'ended',
            outcome: 'failed',
            reason: 'InputFailed',
            message: 'no object in/gone',
            finishedAt: AT + 5_000,
          }),
        }),
        script: waiting('PodInitializing'),
      },
      FAILED,
    ),
    reason: 'InputFailed',
    says: /no object in\/gone/,
    startedAt: undefined,
  },
  {
    name: 'stage-in that died without a word',
    pod: podWith({ in: terminated(137, { reason: 'OOMKilled' }), script: waiting('PodInitializing') }, FAILED),
    reason: 'InputFailed',
    says: /stage-in ended with exit code 137 \(OOMKilled\)/,
    startedAt: undefined,
  },
  {
    name: 'out of memory',
    pod: podWith({ in: DONE, out: terminated(0), script: terminated(137, { reason: 'OOMKilled' }) }, FAILED),
    reason: 'OutOfMemory',
    says: /its 48 MiB/,
  },
  {
    name: 'a script that survived the loss of a part of itself succeeds',
    pod: podWith({ in: DONE, out: said({}), script: terminated(0, { reason: 'OOMKilled' }) }),
    outcome: 'succeeded',
    reason: 'Completed',
    says: /exit code 0/,
    exitCode: 0,
  },
  {
    name: 'one that lost a part of itself to the kernel and hung until its time was over was out of memory',
    pod: podWith({ in: DONE, out: DONE, script: terminated(143, { reason: 'OOMKilled' }) }, FAILED),
    facts: late,
    reason: 'OutOfMemory',
    says: /48 MiB/,
  },
  {
    name: 'too long',
    pod: podWith({ in: DONE, out: DONE, script: terminated(137) }, { ...FAILED, reason: 'DeadlineExceeded' }),
    facts: late,
    reason: 'Timeout',
    says: /within 0\.3 s/,
  },
  {
    name: 'too long even for the kubelet, while no manager was there',
    pod: podWith({ in: DONE, out: DONE, script: terminated(143) }, { ...FAILED, reason: 'DeadlineExceeded' }),
    reason: 'Timeout',
    says: /0\.3 s/,
  },
  {
    name: 'stopped, with the exit code that it chose',
    pod: podWith({ in: DONE, out: DONE, script: terminated(7) }, { ...FAILED, reason: 'DeadlineExceeded' }),
    facts: wanted(),
    outcome: 'stopped',
    reason: 'Stopped',
    says: /cancelled/,
    exitCode: 7,
  },
  {
    name: 'stopped before its script began',
    pod: podWith({ in: running(), script: waiting('PodInitializing') }, { phase: 'Pending' }, deleted),
    facts: wanted(),
    outcome: 'stopped',
    reason: 'Stopped',
    says: /cancelled/,
    startedAt: undefined,
  },
  {
    name: 'more on the disk than it may have',
    pod: podWith(
      { in: DONE, out: running(), script: terminated(137) },
      { ...FAILED, reason: 'Evicted', message: 'Usage of EmptyDir volume "shared" exceeds the limit "1M". ' },
    ),
    reason: 'DiskFull',
    says: /shared/,
  },
  {
    name: 'more on the disk than it may have, noticed over the upload of it',
    pod: podWith(
      {
        in: DONE,
        out: said({ outcome: 'failed', reason: 'OutputFailed', message: 'the pod was ended' }),
        script: DONE,
      },
      { ...FAILED, reason: 'Evicted', message: 'Usage of EmptyDir volume "shared" exceeds the limit "1M". ' },
    ),
    reason: 'DiskFull',
    says: /shared/,
  },
  {
    name: 'ended by a node that has too little of something',
    pod: podWith(
      { in: DONE, out: running(), script: terminated(137) },
      { ...FAILED, reason: 'Evicted', message: 'The node was low on resource: memory.' },
    ),
    reason: 'Lost',
    says: /node-1 .*low on resource: memory/,
  },
  {
    name: 'ended by a node for what it needs itself',
    pod: podWith(
      { in: DONE, out: DONE, script: terminated(143) },
      { ...FAILED, reason: 'Preempting', message: 'Preempted in order to admit critical pod' },
    ),
    reason: 'Lost',
    says: /node-1 .*admit critical pod/,
  },
  {
    name: 'a node that shuts down',
    pod: podWith({ in: DONE, out: DONE, script: terminated(143) }, { ...FAILED, reason: 'Terminated' }),
    reason: 'Lost',
    says: /node-1 was shut down/,
  },
  {
    name: 'a pod that somebody deleted',
    pod: podWith({ in: DONE, out: DONE, script: terminated(143) }, FAILED, deleted),
    reason: 'Lost',
    says: /its pod was deleted/,
  },
  {
    name: 'a script that had failed by itself before its pod was deleted',
    pod: podWith({ in: DONE, out: DONE, script: terminated(3, { finishedAt: at(14) }) }, FAILED, deleted),
    reason: 'ScriptFailed',
    says: /exit code 3/,
    exitCode: 3,
  },
  {
    name: 'a node that does not answer',
    pod: podWith({ in: DONE, out: running(), script: running() }, disrupted('DeletionByTaintManager'), deleted),
    reason: 'Lost',
    says: /node-1 does not answer/,
  },
  {
    name: 'a node that is drained',
    pod: podWith({ in: DONE, out: DONE, script: terminated(143) }, disrupted('EvictionByEvictionAPI'), deleted),
    reason: 'Lost',
    says: /drained/,
  },
  {
    name: 'a pod of higher priority',
    pod: podWith({ in: DONE, out: DONE, script: terminated(143) }, disrupted('PreemptionByScheduler'), deleted),
    reason: 'Lost',
    says: /higher priority/,
  },
  {
    name: 'a container that the node lost',
    pod: podWith(
      { in: DONE, out: DONE, script: terminated(137, { reason: 'ContainerStatusUnknown', startedAt: null }) },
      FAILED,
    ),
    reason: 'Lost',
    says: /node-1 lost the script/,
    startedAt: undefined,
  },
  {
    name: 'a node that was started again',
    pod: podWith({ in: DONE, out: DONE, script: terminated(255, { reason: 'Unknown' }) }, FAILED),
    reason: 'Lost',
    says: /node-1 lost the script/,
  },
  {
    name: 'a node that was started again before the script began',
    pod: podWith({ in: terminated(255, { reason: 'Unknown' }) }, FAILED),
    reason: 'Lost',
    says: /node-1 lost its pod before the script began/,
    startedAt: undefined,
  },
  {
    name: 'an image without a shell',
    pod: podWith(
      {
        in: DONE,
        out: DONE,
        script: terminated(128, { reason: 'StartError', message: 'no /bin/sh', startedAt: '1970-01-01T00:00:00Z' }),
      },
      FAILED,
    ),
    reason: 'StartFailed',
    says: /no \/bin\/sh/,
    startedAt: undefined,
  },
  {
    name: 'a node that did not take it after all',
    pod: podWith({}, { ...FAILED, reason: 'OutOfcpu', message: "Node didn't have enough resource: cpu" }),
    reason: 'StartFailed',
    says: /node-1 did not start it: OutOfcpu: Node didn't have/,
    startedAt: undefined,
  },
  {
    name: 'a pod that has waited: its script began when stage-out says so',
    pod: podWith({ out: said({ startedAt: AT + 12_345 }), script: terminated(0) }, { phase: 'Succeeded' }, WAITED),
    outcome: 'succeeded',
    reason: 'Completed',
    says: /exit code 0/,
    exitCode: 0,
    startedAt: AT + 12_345,
  },
  {
    name: 'a pod that has waited, and whose input could not be had: its script did not begin',
    pod: podWith(
      {
        out: said({ outcome: 'failed', reason: 'InputFailed', message: 'the input could not be fetched: gone' }),
        script: terminated(143),
      },
      FAILED,
      WAITED,
    ),
    reason: 'InputFailed',
    says: /could not be fetched: gone/,
    startedAt: undefined,
  },
  {
    name: 'a pod that has waited, of which nobody says when its script began: when it was seen',
    pod: podWith({ script: terminated(7) }, FAILED, WAITED),
    facts: { ...FACTS, began: AT + 11_000 },
    reason: 'ScriptFailed',
    says: /exit code 7/,
    exitCode: 7,
    startedAt: AT + 11_000,
  },
  {
    name: 'a pod that ended and says nothing',
    pod: podWith({ script: running() }, FAILED),
    reason: 'Lost',
    says: /without an exit code$/,
  },
];

for (const { name, pod, facts = FACTS, outcome = 'failed', reason, says, exitCode, ...more } of cases) {
  test(name, () => {
    const end = podOutcome(pod, facts, NOW);
    assert.deepEqual([end.outcome, end.reason, end.exitCode], [outcome, reason, exitCode]);
    assert.match(end.message, says);
    assert.equal(end.startedAt, 'startedAt' in more ? more.startedAt : AT + 10_000);
    assert.ok(end.finishedAt >= (end.startedAt ?? 0) && end.finishedAt <= NOW);
  });
}

test('outcome: what stage-out reports besides the outcome is kept', () => {
  const told = { manifest: 'a'.repeat(64), answered: true, notices: ['a link was left out'] };
  const end = podOutcome(podWith({ in: DONE, out: said(told), script: DONE }), FACTS, NOW);
  assert.deepEqual({ manifest: end.manifest, answered: end.answered, notices: end.notices }, told);
  assert.equal(end.finishedAt, AT + 21_500);
});

test('outcome: a pod that is gone counts as lost, with the observed start of its script', () => {
  const end = outcomeWithoutPod({ ...FACTS, began: AT }, NOW);
  assert.deepEqual([end.outcome, end.reason, end.startedAt, end.finishedAt], ['failed', 'Lost', AT, NOW]);
});

test('outcome: without a pod, the requested end is the outcome', () => {
  const end = outcomeWithoutPod(wanted(), NOW);
  assert.deepEqual([end.outcome, end.reason, end.startedAt], ['stopped', 'Stopped', undefined]);
});
