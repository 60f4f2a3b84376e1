import { setTimeout as pause } from 'node:timers/promises';
import type { Figure, Measured } from './support/benchmark.ts';
import { startManagerProcess } from './support/manager-process.ts';
import { withServices } from './support/services.ts';
import { median } from './support/statistics.ts';
import { startUser } from './support/user.ts';

export const description = 'start of a manager until it answers, and its memory when idle';

export const figures = {
  cold: { what: 'start to `/health`, empty data directory', unit: 'ms', reach: ['<', 700], goManager: '250 ms' },
  warm: { what: 'start to `/health`, 200 services', unit: 'ms', reach: ['<', 700] },
  memory: { what: 'idle memory', unit: 'MB', reach: ['<', 120], goManager: '58 MB' },
} satisfies Record<string, Figure>;

const STARTS = 9;

/** After which a manager that was just started counts as idle. */
const QUIET_MS = 2_000;

export async function run(): Promise<Measured<typeof figures>> {
  await using user = await startUser();
  const { settings } = user;
  return await withServices(200, user, async (from) => {
    const cold: number[] = [];
    const warm: number[] = [];
    const memory: number[] = [];
    for (let start = 0; start < STARTS; start++) {
      await using empty = await startManagerProcess({ settings });
      cold.push(empty.startedIn);
      await empty.stop();

      await using filled = await startManagerProcess({ settings, from });
      warm.push(filled.startedIn);
      await pause(QUIET_MS);
      memory.push(filled.memory());
    }
    return { cold: median(cold), warm: median(warm), memory: median(memory) };
  });
}
