import type { PodResult } from '../../../../supervisor/index.ts';
import type { Attempt } from '../../../attempt.ts';
import type { ContainerState, Pod, PodStatus } from './pod.ts';
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

/** On a pod that has waited. */
export const WAITED = { annotations: { 'oscar.grycap/attempt-claimed': String(AT + 5_000) } };

interface Containers {
  readonly in?: ContainerState;
  readonly out?: ContainerState & { readonly ready?: boolean; readonly before?: ContainerState['terminated'] };
  readonly script?: ContainerState & { readonly ready?: boolean };
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

export const running = (seconds = 10): ContainerState => ({ running: { startedAt: at(seconds) } });
export const waiting = (reason: string, message?: string): ContainerState => ({
  waiting: { reason, ...(message !== undefined && { message }) },
});
export const terminated = (exitCode: number, more: Partial<ContainerState['terminated']> = {}): ContainerState => ({
  terminated: { exitCode, startedAt: at(10), finishedAt: at(20), ...more },
});

export const said = (result: Partial<PodResult>): ContainerState =>
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
