import type { VisibleRow } from './visible-usage.ts';

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

/** What the log of executions calls somebody who is not known (contract §1.15). */
export const NOBODY = 'nil';

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
