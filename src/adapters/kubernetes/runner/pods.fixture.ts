import type { Attempt } from '../../../model/job/index.ts';
import type { PodResult } from '../../../staging/index.ts';
import type { Pod, PodContainerState, PodStatus } from './pod.ts';
import type { PodSettings } from './pod-spec.ts';

/** Times of the kubelet are whole seconds. */
export const AT = Date.parse('2026-01-01T00:00:00Z');
export const at = (seconds: number) => new Date(AT + seconds * 1_000).toISOString().replace('.000Z', 'Z');

export const SETTINGS: PodSettings = {
  image: 'registry.example/oscar-manager:1',
  pullPolicy: 'IfNotPresent',
  scriptPullPolicy: 'Always',
  resources: { requests: { cpu: '10m', memory: '96Mi' }, limits: { memory: '512Mi' } },
  user: 1000,
  nonRoot: false,
  diskBytes: 1_000_000,
  graceSeconds: 10,
  port: 26_172,
  probeSeconds: 2,
  nodeLossSeconds: 120,
  extraSeconds: 3_600,
};

export const ATTEMPT: Attempt = {
  name: 'cows-1',
  image: 'busybox',
  script: 'echo hello',
  environment: {},
  demand: { cpu: 200, memory: 48 * 2 ** 20, gpu: 0 },
  timeout: 60_000,
  input: { kind: 'none' },
  outputs: [],
  answer: false,
  stores: async () => new Map(),
};

/** The annotations of a claimed warm pod. */
export const WAITED = { annotations: { 'oscar.grycap/attempt-claimed': String(AT + 5_000) } };

interface Containers {
  readonly in?: PodContainerState;
  readonly out?: PodContainerState & { readonly ready?: boolean; readonly before?: PodContainerState['terminated'] };
  readonly script?: PodContainerState & { readonly ready?: boolean };
}

/** A pod on `node-1` whose containers are in these states. */
export function podWith(
  { in: stageIn, out, script }: Containers,
  status: PodStatus = {},
  metadata: Partial<Pod['metadata']> = {},
): Pod {
  const { ready = false, before, ...state } = out ?? {};
  const { ready: begun = false, ...scriptState } = script ?? {};
  return {
    metadata: { name: 'cows-1', namespace: 'ns', ...metadata },
    spec: { nodeName: 'node-1' },
    status: {
      phase: 'Running',
      ...status,
      initContainerStatuses: [
        ...(stageIn ? [{ name: 'stage-in', state: stageIn }] : []),
        ...(out ? [{ name: 'stage-out', ready, state, ...(before && { lastState: { terminated: before } }) }] : []),
      ],
      containerStatuses: script ? [{ name: 'oscar-container', ready: begun, state: scriptState }] : [],
    },
  };
}

export const running = (seconds = 10): PodContainerState => ({ running: { startedAt: at(seconds) } });
export const waiting = (reason: string, message?: string): PodContainerState => ({
  waiting: { reason, ...(message !== undefined && { message }) },
});
export const terminated = (
  exitCode: number,
  more: Partial<PodContainerState['terminated']> = {},
): PodContainerState => ({
  terminated: { exitCode, startedAt: at(10), finishedAt: at(20), ...more },
});

export const said = (result: Partial<PodResult>): PodContainerState =>
  terminated(0, {
    message: JSON.stringify({
      phase: 'ended',
      outcome: 'succeeded',
      reason: 'Completed',
      message: 'well',
      finishedAt: AT + 21_500,
      ...result,
    }),
  });
