import { type Catalog, listServices } from '../../catalog/index.ts';
import type { JobStore, UsageRow } from '../../cluster/index.ts';
import { type Admin, may, type User } from '../../identity/index.ts';
import type { Service } from '../../service/index.ts';

/** What was run, as far as one principal may know of it. */
export interface VisibleRow extends UsageRow {
  /** May they know who the invoker is? If not, it still counts as one. */
  readonly named: boolean;
}

export interface VisibleUsage {
  /** How many services they see now, used or not. */
  readonly services: number;
  readonly rows: readonly VisibleRow[];
}

export interface Range {
  readonly from: number;
  /** Not included. */
  readonly to: number;
}

export interface UsageDeps {
  readonly services: Catalog['services'];
  readonly jobs: Pick<JobStore, 'usage'>;
}

/** What was run of all services that the principal sees. */
export async function visibleUsage(principal: Admin | User, range: Range, deps: UsageDeps): Promise<VisibleUsage> {
  const [records, rows] = await Promise.all([listServices(principal, deps), deps.jobs.usage(range)]);
  const seen = new Map(records.map(({ service }) => [service.definition.name, service]));
  const visible = rows.flatMap((row) => {
    const service = seen.get(row.service);
    return service ? [{ ...row, named: mayName(principal, row, service) }] : [];
  });
  return { services: seen.size, rows: visible };
}

/** What was run of one service; `hidden` when there is one that the principal does not see. */
export async function usageOfService(
  principal: Admin | User,
  name: string,
  range: Range,
  { services, jobs }: UsageDeps,
): Promise<readonly VisibleRow[] | 'hidden' | 'unknown'> {
  const record = await services.get(name);
  // The administrator's question is not checked against what exists: nothing was run of what does not (contract §1.16).
  if (!record) return principal.kind === 'admin' ? [] : 'unknown';
  if (may(principal, 'read', record.service) !== 'yes') return 'hidden';
  const rows = await jobs.usage(range);
  return rows
    .filter(({ service }) => service === name)
    .map((row) => ({ ...row, named: mayName(principal, row, record.service) }));
}

/**
 * Who used a service is for its owner, the administrator, and operators, who see it in the execution log anyway.
 * Everybody else who sees a public service learns how many there were, not who, except for themselves.
 */
function mayName(principal: Admin | User, { invoker }: UsageRow, { owner }: Service): boolean {
  if (principal.kind === 'admin' || principal.operator) return true;
  return owner === principal.uid || invoker === principal.uid || invoker === '';
}
