import type { RemoteDecision, RemoteJob, RemoteTransition } from './remote-job.ts';

export const BEGAN = Date.parse('2026-01-01T10:00:00.000Z');

export const at = (ms: number) => new Date(BEGAN + ms).toISOString();

export const step = (state: string, ms: number, more: Partial<RemoteTransition> = {}): RemoteTransition => ({
  state,
  at: at(ms),
  reason: 'Because',
  message: `it is ${state}`,
  place: 'home',
  ...more,
});

/** By default, a job of `cow` that ran on its origin `home`. */
export function aRemoteJob(more: Partial<RemoteJob> = {}): RemoteJob {
  return {
    id: 'cow-1',
    service: 'cow',
    state: 'succeeded',
    message: 'done',
    trigger: 'storage',
    object: { bucket: 'cow', key: 'in/a.png' },
    accepted_at: at(0),
    attempts: [{ place: 'home', started_at: at(20), finished_at: at(620) }],
    decisions: [],
    timeline: [step('accepted', 0), step('queued', 0), step('running', 10), step('succeeded', 700)],
    ...more,
  };
}

export const decision = (
  chosen: string | undefined,
  candidates: RemoteDecision['candidates'],
  policy = 'static',
): RemoteDecision => ({
  at: at(5),
  policy,
  ...(chosen !== undefined && { chosen }),
  candidates,
});
