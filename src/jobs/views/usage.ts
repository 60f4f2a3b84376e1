import { type Admin, may, type User } from '../../identity/index.ts';
import type { Service } from '../../model/service/index.ts';
import type { JobStore, UsageRow } from '../../ports/index.ts';
import { listServices, type Services } from '../../services/index.ts';

/** What was run, as far as one principal may know of it. */
export interface VisibleRow extends UsageRow {
  /** May they know who the invoker is? If not, it still counts as one. */
  readonly named: boolean;
}

interface VisibleUsage {
  /** How many services they see now, used or not. */
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

/** What was run of all services that the principal sees. */
export async function visibleUsage(principal: Admin | User, range: UsageRange, deps: UsageDeps): Promise<VisibleUsage> {
  const [records, rows] = await Promise.all([listServices(principal, deps), deps.jobs.usage(range)]);
  const seen = new Map(records.map(({ service }) => [service.definition.name, service]));
  const visible = rows.flatMap((row) => {
    const service = seen.get(row.service);
    return service ? [{ ...row, named: mayName(principal, row, service) }] : [];
  });
  return { services: seen.size, rows: visible };
}

/** What was run of one service; `hidden` when there is one that the principal does not see. */
export async function serviceUsage(
  principal: Admin | User,
  name: string,
  range: UsageRange,
  { services, jobs }: UsageDeps,
): Promise<readonly VisibleRow[] | 'hidden' | 'unknown'> {
  const record = await services.get(name);
  // The administrator's question is not checked against what exists: nothing was run of what does not
  // (docs/go-manager.md#jobs-and-logs).
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

/** What some jobs come to. */
export interface Tally {
  readonly requests: number;
  /** Whose caller waited. */
  readonly sync: number;
  readonly async: number;
  readonly cpuHours: number;
  readonly gpuHours: number;
  readonly users: number;
  /** Those of them that may be named, in order. */
  readonly names: readonly string[];
}

/** What the log of executions calls somebody who is not known (docs/go-manager.md#jobs-and-logs). */
const NOBODY = 'nil';

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
    names: [...new Set(rows.filter(({ named }) => named).map(({ invoker }) => invoker || NOBODY))].toSorted(),
  };
}

/** By service, in the order of their names. */
export function byService(rows: readonly VisibleRow[]): { service: string; tally: Tally }[] {
  return grouped(rows, ({ service }) => service).map(([service, of]) => ({ service, tally: tally(of) }));
}

/** By user, in the order of their names; those who may not be named are left out. */
export function byUser(rows: readonly VisibleRow[]): { user: string; tally: Tally }[] {
  const named = rows.filter((row) => row.named);
  return grouped(named, ({ invoker }) => invoker || NOBODY).map(([user, of]) => ({ user, tally: tally(of) }));
}

function grouped(rows: readonly VisibleRow[], keyOf: (row: VisibleRow) => string): [string, VisibleRow[]][] {
  return [...Map.groupBy(rows, keyOf)].toSorted(([a], [b]) => (a < b ? -1 : 1));
}

/** To a third of a millisecond: the last digits of a sum of many fractions mean nothing. */
function hours(seconds: readonly number[]): number {
  const sum = seconds.reduce((total, each) => total + each, 0);
  return Math.round((sum / 3_600) * 1e7) / 1e7;
}
