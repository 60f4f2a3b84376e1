import { type Admin, may, type User } from '../../identity/index.ts';
import type { Service } from '../../model/service/index.ts';
import type { JobStore, UsageRow } from '../../ports/index.ts';
import { listServices, type Services } from '../../services/index.ts';

/** Usage that one principal may see. */
export interface VisibleRow extends UsageRow {
  /** Whether the principal may know the invoker. If not, the invoker is still counted. */
  readonly named: boolean;
}

interface VisibleUsage {
  /** How many services the principal sees now, used or not. */
  readonly services: number;
  readonly rows: readonly VisibleRow[];
}

export interface UsageRange {
  readonly from: number;
  /** Not included. */
  readonly to: number;
}

export interface UsageDeps {
  readonly services: Services['services'];
  readonly jobs: Pick<JobStore, 'usage'>;
}

/** Usage of all services that the principal sees. */
export async function visibleUsage(principal: Admin | User, range: UsageRange, deps: UsageDeps): Promise<VisibleUsage> {
  const [records, rows] = await Promise.all([listServices(principal, deps), deps.jobs.usage(range)]);
  const seen = new Map(records.map(({ service }) => [service.definition.name, service]));
  const visible = rows.flatMap((row) => {
    const service = seen.get(row.service);
    return service ? [{ ...row, named: mayName(principal, row, service) }] : [];
  });
  return { services: seen.size, rows: visible };
}

/** Usage of one service; `hidden` if the principal may not see that service. */
export async function serviceUsage(
  principal: Admin | User,
  name: string,
  range: UsageRange,
  { services, jobs }: UsageDeps,
): Promise<readonly VisibleRow[] | 'hidden' | 'unknown'> {
  const record = await services.get(name);
  // The administrator gets an empty answer for a service that does not exist
  // (docs/go-manager.md#jobs-and-logs).
  if (!record) return principal.kind === 'admin' ? [] : 'unknown';
  if (may(principal, 'read', record.service) !== 'yes') return 'hidden';
  const rows = await jobs.usage(range);
  return rows
    .filter(({ service }) => service === name)
    .map((row) => ({ ...row, named: mayName(principal, row, record.service) }));
}

/**
 * The owner, the administrator and operators may know who used a service; operators see it in the execution log anyway.
 * Other users of a public service see the number of users, and only their own name.
 */
function mayName(principal: Admin | User, { invoker }: UsageRow, { owner }: Service): boolean {
  if (principal.kind === 'admin' || principal.operator) return true;
  return owner === principal.uid || invoker === principal.uid || invoker === '';
}

/** The sums over some jobs. */
export interface Tally {
  readonly requests: number;
  /** Synchronous calls. */
  readonly sync: number;
  readonly async: number;
  readonly cpuHours: number;
  readonly gpuHours: number;
  readonly users: number;
  /** The users that may be named, sorted. */
  readonly names: readonly string[];
}

/** How the execution log names an unknown user (docs/go-manager.md#jobs-and-logs). */
const UNKNOWN_USER = 'nil';

export function tally(rows: readonly VisibleRow[]): Tally {
  const count = (chosen: readonly VisibleRow[]) => chosen.reduce((sum, { jobs }) => sum + jobs, 0);
  const requests = count(rows);
  const sync = count(rows.filter(({ trigger }) => trigger === 'run'));
  return {
    requests,
    sync,
    async: requests - sync,
    cpuHours: hours(rows.map(({ cpuSeconds }) => cpuSeconds)),
    gpuHours: hours(rows.map(({ gpuSeconds }) => gpuSeconds)),
    users: new Set(rows.map(({ invoker }) => invoker)).size,
    names: [...new Set(rows.filter(({ named }) => named).map(({ invoker }) => invoker || UNKNOWN_USER))].toSorted(),
  };
}

/** By service, sorted by name. */
export function byService(rows: readonly VisibleRow[]): { service: string; tally: Tally }[] {
  return grouped(rows, ({ service }) => service).map(([service, of]) => ({ service, tally: tally(of) }));
}

/** By user, sorted by name; users that may not be named are left out. */
export function byUser(rows: readonly VisibleRow[]): { user: string; tally: Tally }[] {
  const named = rows.filter((row) => row.named);
  return grouped(named, ({ invoker }) => invoker || UNKNOWN_USER).map(([user, of]) => ({ user, tally: tally(of) }));
}

function grouped(rows: readonly VisibleRow[], keyOf: (row: VisibleRow) => string): [string, VisibleRow[]][] {
  return [...Map.groupBy(rows, keyOf)].toSorted(([a], [b]) => (a < b ? -1 : 1));
}

/** Rounded to a third of a millisecond, because the last digits of a sum of fractions are noise. */
function hours(seconds: readonly number[]): number {
  const sum = seconds.reduce((total, each) => total + each, 0);
  return Math.round((sum / 3_600) * 1e7) / 1e7;
}
