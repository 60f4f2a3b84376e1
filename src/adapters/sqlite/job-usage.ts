import type { NewJob } from '../../model/job/index.ts';
import type { UsageRow } from '../../ports/index.ts';
import type { Database, PreparedQuery } from './database.ts';
import type { ListPosition } from './job-changes.ts';

/** Enough that the query is what takes the time, few enough that everybody else waits some milliseconds for it. */
const SLICE = 1_000;

interface Row {
  seq: number;
  accepted_at: number;
  service: string;
  invoker: string;
  trigger: NewJob['trigger'];
  /** Millicores, devices, milliseconds. */
  cpu: number;
  gpu: number;
  started: number | null;
  ended: number | null;
}

interface Range {
  readonly from: number;
  readonly to: number;
}

/** What jobs have used. Read slice by slice: a month of them may be everything there is. */
export class JobUsage {
  readonly #slice: PreparedQuery<Row>;

  constructor(database: Database) {
    this.#slice = database.query(USAGE);
  }

  /** Jobs that still run have run until now. */
  async sum(range: Range, now: number): Promise<UsageRow[]> {
    const sums = new Map<string, UsageRow>();
    let above: ListPosition = { acceptedAt: range.from, seq: 0 };
    for (;;) {
      const rows = this.#slice.all(above.acceptedAt, above.seq, range.to, SLICE);
      for (const row of rows) addTo(sums, row, range, now);
      const last = rows.at(-1);
      if (!last || rows.length < SLICE) return [...sums.values()];
      above = { acceptedAt: last.accepted_at, seq: last.seq };
      await new Promise(setImmediate);
    }
  }
}

export const USAGE = `
  SELECT seq, accepted_at, service, invoker, trigger,
    job ->> '$.demand.cpu' AS cpu, job ->> '$.demand.gpu' AS gpu,
    progress ->> '$.startedAt' AS started, coalesce(progress ->> '$.finishedAt', ended_at) AS ended
  FROM jobs WHERE standing <> 'hidden' AND (accepted_at, seq) > (?, ?) AND accepted_at < ?
  ORDER BY accepted_at, seq LIMIT ?`;

function addTo(sums: Map<string, UsageRow>, row: Row, range: Range, now: number): void {
  const { service, invoker, trigger } = row;
  const key = JSON.stringify([service, invoker, trigger]);
  const sum = sums.get(key) ?? { service, invoker, trigger, jobs: 0, cpuSeconds: 0, gpuSeconds: 0 };
  const seconds = millisecondsWithin(row, range, now) / 1_000;
  sums.set(key, {
    ...sum,
    jobs: sum.jobs + 1,
    cpuSeconds: sum.cpuSeconds + (row.cpu / 1_000) * seconds,
    gpuSeconds: sum.gpuSeconds + row.gpu * seconds,
  });
}

function millisecondsWithin({ started, ended }: Row, { from, to }: Range, now: number): number {
  if (started === null) return 0;
  return Math.max(0, Math.min(ended ?? now, to) - Math.max(started, from));
}
