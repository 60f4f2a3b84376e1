import { constants } from 'node:os';
import type { EndReason } from '../../../model/job/index.ts';
import { type PodResult, readResult } from '../../../staging/index.ts';
import {
  claimedAt,
  deletionRequestedAt,
  findContainer,
  type Pod,
  type PodCondition,
  parseTime,
  SCRIPT,
  STAGE_IN,
  STAGE_OUT,
  scriptStart,
  stageOutResult,
  type Terminated,
} from './pod.ts';

/** A requested end of an attempt, and its reason. */
export interface RequestedStop {
  readonly outcome: 'failed' | 'stopped';
  readonly reason: EndReason;
  readonly message: string;
  readonly at: number;
}

/** What is known of an attempt in addition to its pod. */
export interface PodFacts {
  /** Milliseconds. */
  readonly timeout: number;
  /** Memory limit in bytes. */
  readonly memory: number;
  readonly wanted?: RequestedStop;
  /** When its script was first seen running. */
  readonly began?: number;
}

/** How an attempt ended, as it is recorded. */
export type PodOutcome = PodResult;

type OutcomeParts = Pick<PodOutcome, 'outcome' | 'reason' | 'message'> &
  Partial<Pick<PodOutcome, 'exitCode' | 'finishedAt' | 'manifest' | 'answered' | 'notices'>>;

/**
 * The outcome of an attempt whose pod has ended. Delivered results count, whatever happened afterwards. Then, in this order:
 * the kubelet's reason for the pod, the report of stage-out, a requested stop, and how the containers ended.
 */
export function podOutcome(pod: Pod, facts: PodFacts, now: number): PodOutcome {
  const verdict =
    delivered(pod, facts) ??
    evicted(pod) ??
    notDelivered(pod) ??
    ended(pod, facts) ??
    deleted(pod) ??
    inputFailed(pod) ??
    scriptEnded(pod, facts) ??
    neverStarted(pod);
  return completeOutcome(verdict, pod, facts, now);
}

/** The outcome of an attempt whose pod is gone. */
export function outcomeWithoutPod(facts: PodFacts, now: number): PodOutcome {
  const { wanted, began } = facts;
  const gone = 'its pod is gone, and its outcome is unknown: the pod or its namespace was deleted';
  const verdict: OutcomeParts = wanted ? fromRequestedStop(wanted) : failed('Lost', gone);
  return { phase: 'ended', ...verdict, ...(began !== undefined && { startedAt: began }), finishedAt: now };
}

/** The outcome of an attempt whose pod was never created. */
export function outcomeOfUnstarted(reason: EndReason, message: string, now: number): PodOutcome {
  return { phase: 'ended', ...failed(reason, message), finishedAt: now };
}

function completeOutcome(verdict: OutcomeParts, pod: Pod, { began }: PodFacts, now: number): PodOutcome {
  const startedAt = scriptStart(pod) ?? began;
  const finished = verdict.finishedAt ?? parseTime(terminatedScript(pod)?.finishedAt) ?? now;
  return {
    phase: 'ended',
    ...verdict,
    ...(startedAt !== undefined && { startedAt }),
    // The kubelet counts in seconds, stage-out in milliseconds.
    finishedAt: Math.max(finished, startedAt ?? 0),
  };
}

const terminatedScript = (pod: Pod) => findContainer(pod, SCRIPT)?.state?.terminated;

function delivered(pod: Pod, { wanted }: PodFacts): OutcomeParts | undefined {
  const result = stageOutResult(pod);
  if (result?.outcome !== 'succeeded') return undefined;
  const script = terminatedScript(pod);
  // The script can fake its end for stage-out, but not for the kubelet.
  const killed =
    wanted !== undefined || pod.metadata.deletionTimestamp !== undefined || pod.status?.reason !== undefined;
  if (script?.exitCode !== 0 && !killed) return undefined;
  const { manifest, answered, notices } = result;
  return {
    outcome: 'succeeded',
    reason: 'Completed',
    message: 'the script ended with exit code 0',
    exitCode: 0,
    finishedAt: result.finishedAt,
    ...(manifest !== undefined && { manifest }),
    ...(answered !== undefined && { answered }),
    ...(notices && { notices }),
  };
}

/** Messages of the kubelet about limits of the pod itself, not of its node. */
const OVER_ITS_DISK = /exceeds the (total )?limit|exceeded its local ephemeral storage limit/;

function evicted({ status, spec }: Pod): OutcomeParts | undefined {
  const { reason, message = '' } = status ?? {};
  if (reason === 'Evicted') {
    return OVER_ITS_DISK.test(message)
      ? failed('DiskFull', `the script exceeded its limit of disk space: ${message}`)
      : failed('Lost', `the node ${spec.nodeName} ended it to save itself: ${message}`);
  }
  if (reason === 'Terminated' || reason === 'NodeShutdown' || reason === 'Shutdown') {
    return failed('Lost', `the node ${spec.nodeName} was shut down: ${message}`);
  }
  if (reason === 'Preempting') {
    return failed('Lost', `the node ${spec.nodeName} ended it to make room for what the node itself needs: ${message}`);
  }
  return reason === 'NodeLost' ? failed('Lost', `the node ${spec.nodeName} was lost: ${message}`) : undefined;
}

function notDelivered(pod: Pod): OutcomeParts | undefined {
  const result = stageOutResult(pod);
  if (result?.reason !== 'OutputFailed') return undefined;
  const exitCode = terminatedScript(pod)?.exitCode ?? 0;
  if (exitCode !== 0 && exitCode < 128) return undefined;
  const { message, notices, finishedAt } = result;
  return { ...failed('OutputFailed', message), exitCode: 0, finishedAt, ...(notices && { notices }) };
}

/** A requested stop, or the deadline of the pod. */
function ended(pod: Pod, { wanted, timeout, memory }: PodFacts): OutcomeParts | undefined {
  const script = terminatedScript(pod);
  if (wanted) {
    // If the kernel kills one process of a script for its memory, the others may run until the timeout.
    if (wanted.reason === 'Timeout' && isOutOfMemory(script)) return outOfMemory(memory);
    // A killed script has no exit code of its own.
    const own = script && script.exitCode !== KILLED && scriptStart(pod) !== undefined;
    return { ...fromRequestedStop(wanted), ...(own && { exitCode: script.exitCode }) };
  }
  if (pod.status?.reason !== 'DeadlineExceeded') return undefined;
  return failed('Timeout', `the script did not end within ${timeout / 1_000} s, nor did its pod in the time it had`);
}

/** 128 and SIGKILL. */
const KILLED = 137;

const fromRequestedStop = ({ outcome, reason, message }: RequestedStop): OutcomeParts => ({ outcome, reason, message });

/** The pod was deleted from outside. A script that had ended before keeps its own outcome. */
function deleted(pod: Pod): OutcomeParts | undefined {
  const asked = deletionRequestedAt(pod);
  if (asked === undefined) return undefined;
  const finished = parseTime(terminatedScript(pod)?.finishedAt);
  if (finished !== undefined && finished < asked) return undefined;
  const disruption = pod.status?.conditions?.find(
    ({ type, status }) => type === 'DisruptionTarget' && status === 'True',
  );
  return failed('Lost', `${deletionCause(disruption, pod.spec.nodeName)}, and it left no exit code`);
}

function deletionCause(disruption: PodCondition | undefined, node = 'its node'): string {
  switch (disruption?.reason) {
    case 'DeletionByTaintManager':
      return `the node ${node} does not answer or may run nothing any more`;
    case 'PreemptionByScheduler':
      return 'its pod had to make room for one of higher priority';
    case 'EvictionByEvictionAPI':
      return `its pod was moved off ${node}, which is being drained`;
    case 'DeletionByPodGC':
      return `the node ${node} is gone`;
    case 'TerminationByKubelet':
      return `the node ${node} ended it (${disruption.message ?? 'to save itself'})`;
    default:
      return 'its pod was deleted';
  }
}

function inputFailed(pod: Pod): OutcomeParts | undefined {
  if (claimedAt(pod) !== undefined) return notPrepared(pod);
  const stageIn = findContainer(pod, STAGE_IN)?.state?.terminated;
  if (!stageIn || stageIn.exitCode === 0) return undefined;
  const result = readResult(stageIn.message ?? '');
  if (result) return { ...failed(result.reason, result.message), finishedAt: result.finishedAt };
  if (LOST_REASONS.has(stageIn.reason ?? '')) {
    return failed('Lost', `the node ${pod.spec.nodeName} lost its pod before the script began`);
  }
  return failed('InputFailed', `the input could not be fetched: stage-in ${howEnded(stageIn)}`);
}

/** In a claimed warm pod, stage-out also does the work of stage-in. */
function notPrepared(pod: Pod): OutcomeParts | undefined {
  const result = stageOutResult(pod);
  if (result?.reason !== 'InputFailed' && result?.reason !== 'StartFailed') return undefined;
  return { ...failed(result.reason, result.message), finishedAt: result.finishedAt };
}

/** Reasons for a container that is lost: of the kubelet, and of containerd after a restart of the node. */
const LOST_REASONS = new Set(['ContainerStatusUnknown', 'Unknown']);

/** The kubelet's reasons for a container that never ran. */
const NOT_STARTED = new Set(['StartError', 'ContainerCannotRun', 'CreateContainerError', 'RunContainerError']);

function scriptEnded(pod: Pod, { memory }: PodFacts): OutcomeParts | undefined {
  const script = terminatedScript(pod);
  if (!script) return undefined;
  const { exitCode, reason = '', message = '' } = script;
  if (NOT_STARTED.has(reason)) return failed('StartFailed', `the script could not be started: ${message || reason}`);
  if (LOST_REASONS.has(reason)) {
    return failed('Lost', `the node ${pod.spec.nodeName} lost the script, which left no exit code`);
  }
  if (isOutOfMemory(script)) return outOfMemory(memory);
  if (exitCode !== 0) {
    return {
      ...failed('ScriptFailed', `the script ended with exit code ${exitCode}${signalName(exitCode)}`),
      exitCode,
    };
  }
  const stageOut = findContainer(pod, STAGE_OUT);
  const last = stageOut?.state?.terminated ?? stageOut?.lastState?.terminated;
  const why = last ? `stage-out ${howEnded(last)} and said nothing` : 'stage-out said nothing';
  return { ...failed('OutputFailed', `it is unknown which outputs were delivered: ${why}`), exitCode };
}

/** The kubelet may have rejected the pod. */
function neverStarted(pod: Pod): OutcomeParts {
  const { reason, message } = pod.status ?? {};
  const why = [reason, message].filter((each) => each !== undefined && each !== '').join(': ');
  if (scriptStart(pod) !== undefined || why === '')
    return failed('Lost', `its pod ended without an exit code ${why}`.trim());
  return failed('StartFailed', `the node ${pod.spec.nodeName} did not start it: ${why}`);
}

const isOutOfMemory = (script: Terminated | undefined) => script?.reason === 'OOMKilled' && script.exitCode !== 0;

const outOfMemory = (memory: number) =>
  failed('OutOfMemory', `the script used more memory than its ${Math.round(memory / 2 ** 20)} MiB`);

const failed = (reason: EndReason, message: string): OutcomeParts => ({ outcome: 'failed', reason, message });

function howEnded({ exitCode, reason }: Terminated): string {
  return `ended with exit code ${exitCode}${reason === undefined ? '' : ` (${reason})`}`;
}

/** A shell reports a signal as 128 plus its number. */
function signalName(exitCode: number): string {
  const name = Object.entries(constants.signals).find(([, number]) => number === exitCode - 128)?.[0];
  return name ? ` (${name})` : '';
}
