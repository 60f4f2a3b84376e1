import { median, percentile } from './statistics.ts';

export interface SideBySide {
  readonly median: number;
  readonly slowest: number;
  readonly bare: number;
  readonly bareSlowest: number;
  /** In percent of what the bare calls take. */
  readonly ratio: number;
}

/**
 * Milliseconds that something takes and that the calls take which it consists of, one after the other and in turns, so
 * that whatever else the machine does meets both. The first tenth warms up and does not count.
 */
export async function sideBySide(
  turns: number,
  ours: (turn: number) => Promise<unknown>,
  bare: (turn: number) => Promise<unknown>,
): Promise<SideBySide> {
  const times: { ours: number; bare: number }[] = [];
  for (let turn = 0; turn < turns; turn++)
    times.push({ ours: await timeOf(ours, turn), bare: await timeOf(bare, turn) });
  const counted = times.slice(turns / 10);
  const [one, other] = [counted.map((time) => time.ours), counted.map((time) => time.bare)];
  return {
    median: median(one),
    slowest: percentile(one, 99),
    bare: median(other),
    bareSlowest: percentile(other, 99),
    ratio: (median(one) / median(other)) * 100,
  };
}

async function timeOf(work: (turn: number) => Promise<unknown>, turn: number): Promise<number> {
  const begun = performance.now();
  await work(turn);
  return performance.now() - begun;
}
