import type { NewJob } from '../cluster/index.ts';
import type { Service } from '../service/index.ts';
import type { Placing } from './jobs.ts';

/**
 * Where a job of this service may run (design §9). Whoever waits for an answer waits here; what was taken from another
 * cluster, or delegated by it, is not passed on (F12); and a job that entered at a worker is placed by who coordinates it,
 * never in line here first.
 */
export function placingOf(
  { definition, federation: role }: Service,
  { trigger, taken, openedBy, delegatedFrom }: Pick<NewJob, 'trigger' | 'taken' | 'openedBy' | 'delegatedFrom'>,
): Placing {
  if (role?.role !== 'coordinator' || trigger === 'run' || taken || delegatedFrom !== undefined) {
    return 'here';
  }
  if (openedBy !== undefined) return 'anywhere';
  const { topology = 'none', members = [], delegate_when } = definition.federation ?? {};
  if (members.length === 0 || topology.toLowerCase() === 'none') return 'here';
  return delegate_when === 'always' ? 'anywhere' : 'when-full';
}
