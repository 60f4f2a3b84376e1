import type { Containers, Statistics } from './containers.ts';

/** Shorter: figures are fresher. Longer: less load, since the engine reads a dozen files for each container. */
const SAMPLE_INTERVAL_MS = 3_000;

interface Sample {
  /** Nanoseconds of CPU time since the start. */
  readonly cpu: number;
  readonly at: number;
  readonly millicores: number;
  readonly memory: number;
}

/** Measures what the containers use. It samples in the background when `now` is called, so the first calls return zero. */
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
    if (performance.now() - this.#askedAt > SAMPLE_INTERVAL_MS) void this.#sample();
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
    const found = await Promise.all(this.#ids().map(async (id) => [id, await this.#sampleContainer(id)] as const));
    this.#samples = new Map(found.filter((each): each is [string, Sample] => each[1] !== undefined));
  }

  async #sampleContainer(id: string): Promise<Sample | undefined> {
    // Usage is only shown to people, so an unreachable daemon is no error.
    const statistics = await this.#containers.statistics(id).catch(() => undefined);
    const cpu = statistics?.cpu_stats?.cpu_usage?.total_usage;
    if (cpu === undefined) return undefined;
    const before = this.#samples.get(id);
    const at = performance.now();
    const millicores = before ? Math.max(cpu - before.cpu, 0) / 1_000 / (at - before.at) : 0;
    return { cpu, at, millicores, memory: toUsedMemory(statistics) };
  }
}

/** Memory in use without the page cache that the kernel can drop. */
function toUsedMemory(statistics: Statistics | undefined): number {
  const { usage = 0, stats } = statistics?.memory_stats ?? {};
  return Math.max(usage - (stats?.total_inactive_file ?? stats?.inactive_file ?? 0), 0);
}
