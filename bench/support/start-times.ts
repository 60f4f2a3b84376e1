import { setTimeout as pause } from 'node:timers/promises';

/** A way to get a script to run, which tells when it does. */
export interface Way {
  /** Resolves to the id with which the script tells. */
  begin(turn: number): Promise<string>;
  /** Waits for its end, and leaves nothing behind. */
  end(id: string): Promise<void>;
}

/** The most that a start, which takes seconds, can seem later than it is. */
const LOOK_EVERY_MS = 5;

/** A script that has not begun by then never will. */
const DEADLINE_MS = 120_000;

/** The kubelet looks at its pods once a second. */
const LOOKS_MS = 1_000;

/**
 * A pause before a turn, so that it does not always begin at the same moment between two looks of the kubelet: what ended
 * before has ended at one. The turns together meet all moments alike.
 */
export const betweenLooks = (turn: number): Promise<void> => pause(((turn * 0.618) % 1) * LOOKS_MS);

/**
 * Milliseconds from asking for it until the script runs, one at a time on a machine that runs no other, of each way. In
 * turns, so that whatever else the machine does meets all of them, and each turn begins with another one.
 */
export async function startTimes<Name extends string>(
  ways: Readonly<Record<Name, Way>>,
  turns: { readonly counted: number; readonly before: number },
  runs: (id: string) => boolean,
): Promise<Record<Name, number[]>> {
  const names = Object.keys(ways) as Name[];
  const times = Object.fromEntries(names.map((name) => [name, [] as number[]])) as Record<Name, number[]>;
  for (let turn = 0; turn < turns.before + turns.counted; turn++) {
    const first = turn % names.length;
    for (const name of [...names.slice(first), ...names.slice(0, first)]) {
      await betweenLooks(turn);
      const time = await startTime(ways[name], turn, runs);
      if (turn >= turns.before) times[name].push(time);
    }
  }
  return times;
}

async function startTime(way: Way, turn: number, runs: (id: string) => boolean): Promise<number> {
  const begun = performance.now();
  const id = await way.begin(turn);
  while (!runs(id)) {
    if (performance.now() - begun > DEADLINE_MS) throw new Error(`the script of ${id} does not begin`);
    await pause(LOOK_EVERY_MS);
  }
  const time = performance.now() - begun;
  await way.end(id);
  return time;
}
