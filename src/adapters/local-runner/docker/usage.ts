import type { Containers, Statistics } from './containers.ts';

/** The engine reads a dozen files for each container: often enough to see a load, seldom enough to cause none. */
const EVERY_MS = 3_000;

interface Sample {
  /** Nanoseconds of CPU so far. */
  readonly cpu: number;
  readonly at: number;
  readonly millicores: number;
  readonly memory: number;
}

/** What containers use, asked for only while somebody wants to know. The first answers are of nothing. */
export class UsageSampler {
  readonly #containers: Containers;
  readonly #ids: () => readonly string[];
  #samples = new Map<string, Sample>();
  #askedAt = -Infinity;

  constructor(containers: Containers, ids: () => readonly string[]) {
    this.#containers = containers;
    this.#ids = ids;
  }

  now(): { cpu: number; memory: number } {
    if (performance.now() - this.#askedAt > EVERY_MS) void this.#sample();
    let cpu = 0;
    let memory = 0;
    for (const id of this.#ids()) {
      cpu += this.#samples.get(id)?.millicores ?? 0;
      memory += this.#samples.get(id)?.memory ?? 0;
    }
    return { cpu: Math.round(cpu), memory };
  }

  async #sample(): Promise<void> {
    this.#askedAt = performance.now();
    const found = await Promise.all(this.#ids().map(async (id) => [id, await this.#sampleOf(id)] as const));
    this.#samples = new Map(found.filter((each): each is [string, Sample] => each[1] !== undefined));
  }

  async #sampleOf(id: string): Promise<Sample | undefined> {
    // A figure for people: a daemon that is away has none.
    const statistics = await this.#containers.statistics(id).catch(() => undefined);
    const cpu = statistics?.cpu_stats?.cpu_usage?.total_usage;
    if (cpu === undefined) return undefined;
    const before = this.#samples.get(id);
    const at = performance.now();
    const millicores = before ? Math.max(cpu - before.cpu, 0) / 1_000 / (at - before.at) : 0;
    return { cpu, at, millicores, memory: memoryOf(statistics) };
  }
}

/** Without files that are merely cached. */
function memoryOf(statistics: Statistics | undefined): number {
  const { usage = 0, stats } = statistics?.memory_stats ?? {};
  return Math.max(usage - (stats?.total_inactive_file ?? stats?.inactive_file ?? 0), 0);
}
