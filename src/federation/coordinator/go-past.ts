import type { ServiceRecord } from '../../cluster/index.ts';
import type { Coordination } from './coordination.ts';
import type { Result } from './results.ts';

/**
 * How far ahead of its coordinator a member is believed to be. Less: a backup of a service that changes every minute may be
 * too old after a while. More: members that lie are sooner where numbers end.
 */
export const FURTHEST_AHEAD = 1_000_000;

/**
 * Goes past the latest revision that members know: this manager was restored from a backup, and what it says now is the
 * latest. Undefined when no member knows a later one.
 */
export async function goPast(
  { service, version }: ServiceRecord,
  results: readonly Result[],
  { services, audit }: Pick<Coordination, 'services' | 'audit'>,
): Promise<ServiceRecord | undefined> {
  const ahead = Math.max(0, ...results.map((result) => (result.kind === 'ahead' ? result.revision : 0)));
  const role = service.federation;
  if (ahead === 0 || role?.role !== 'coordinator') return undefined;
  const federation = { ...role, revision: ahead + 1 };
  const replaced = await services.replace({ ...service, federation }, version);
  const { uid, revision } = federation;
  audit?.({ what: 'restored', service: service.definition.name, uid, revision });
  return replaced;
}
