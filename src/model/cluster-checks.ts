/**
 * The checks of a cluster that need no request of their own: `oscar doctor` makes them from the answers of a manager, and the
 * manager itself makes them for its page.
 */
export interface Check {
  /** A cluster, a service or a member. */
  readonly where: string;
  readonly what: string;
  readonly ok: boolean;
  /** Works, but is not as it should be. */
  readonly warning?: true;
  /** What was found, or what is wrong and what to do about it. */
  readonly said: string;
}

export const passed = (where: string, what: string, said: string): Check => ({ where, what, ok: true, said });
export const warned = (where: string, what: string, said: string): Check => ({
  ...passed(where, what, said),
  warning: true,
});
export const failure = (where: string, what: string, said: string): Check => ({ where, what, ok: false, said });

/** The fields of `/system/info` that are checked. */
export interface CheckedInfo {
  readonly isolation?: { readonly namespaces: boolean; readonly enforced: readonly string[]; readonly reason?: string };
  readonly serverless_backend?: { readonly version: string };
  readonly queues?: { readonly problem: string };
  readonly object_store_events?: { readonly problem: string; readonly set: readonly string[] };
  readonly access_tokens?: { readonly problem: string };
}

/** Most of them only report problems. The manager tells some of them to the administrator only. */
export function infoChecks(id: string, info: CheckedInfo): Check[] {
  const { serverless_backend: backend, queues, object_store_events: events, access_tokens: tokens } = info;
  return [
    ...(backend?.version === '' ? [failure(id, 'knative', NO_KNATIVE)] : []),
    ...checkIsolation(id, info),
    ...(queues ? [failure(id, 'queues', `users cannot create services: ${queues.problem}`)] : []),
    ...(events ? [failure(id, 'events', `${events.problem}: ${events.set.join(' ')}`)] : []),
    // The cluster works.
    ...(tokens ? [warned(id, 'tokens', tokens.problem)] : []),
  ];
}

const NO_KNATIVE = 'SERVERLESS_BACKEND is knative, but Knative is not installed: install it, or remove the setting';

/** Scripts that run in containers have nothing to report. */
function checkIsolation(id: string, { isolation }: CheckedInfo): Check[] {
  if (!isolation) return [];
  if (!isolation.namespaces) {
    const sentence = `scripts are not isolated: users can reach each other's files, processes and secrets: ${isolation.reason}`;
    return [warned(id, 'isolation', sentence)];
  }
  const limits =
    isolation.enforced.length > 0 ? `, the kernel enforces ${isolation.enforced.join(', ')}, disk is sampled` : '';
  return [passed(id, 'isolation', `scripts run in namespaces of their own${limits}`)];
}

/** What to do about a member that is not ready; docs/troubleshooting.md has more. */
const ADVICE: Readonly<Record<string, string>> = {
  pending: 'if it stays pending, update the service as its owner (`oscar apply`)',
  unreachable: 'is its manager running, and can the coordinator reach it? It is updated when it is back',
  conflict: 'rename the member or delete the service that has its name, then repeat `oscar apply`',
  removing: 'it is removed when its jobs have ended, after 24 h at the latest',
  'removed-by-owner': 'remove the member with `oscar replicas remove`, or add it again',
};

/** `name` is `<cluster id>/<service>`. */
export function checkMember(name: string, state: string, reason?: string): Check {
  if (state === 'ready') return passed(name, 'member', 'ready');
  const advice = ADVICE[state];
  return failure(name, 'member', [`${state}${reason ? `: ${reason}` : ''}`, advice].filter(Boolean).join('; '));
}
