import { median } from './statistics.ts';

/**
 * How often each is measured. On a machine that does other things too, one bad round in five does not move the median.
 */
const ROUNDS = 5;

export interface Compared {
  /** The median of each. */
  readonly first: number;
  readonly second: number;
  /** The median of second to first, round by round. */
  readonly ratio: number;
}

/**
 * Measures two things in turns, so that whatever else the machine does meets both, and every other round the other way
 * round, so that none has the better place. The first turn of each warms up and does not count.
 */
export async function interleaved(first: () => Promise<number>, second: () => Promise<number>): Promise<Compared> {
  await first();
  await second();
  const rounds: { one: number; other: number }[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    if (round % 2 === 0) {
      const one = await first();
      rounds.push({ one, other: await second() });
    } else {
      const other = await second();
      rounds.push({ one: await first(), other });
    }
  }
  return {
    first: median(rounds.map(({ one }) => one)),
    second: median(rounds.map(({ other }) => other)),
    ratio: median(rounds.map(({ one, other }) => other / one)),
  };
}

/** The median of several rounds, after one that warms up. */
export async function repeated(measure: () => Promise<number>): Promise<number> {
  await measure();
  const measured: number[] = [];
  for (let round = 0; round < ROUNDS; round++) measured.push(await measure());
  return median(measured);
}
