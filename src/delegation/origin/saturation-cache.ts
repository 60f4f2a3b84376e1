import type { Demand, JobRecord } from '../../model/job/index.ts';

/** How long nobody looks again, unless something is heard of a member. Longer: room that came up here is noticed late. */
const BELIEVED_MS = 1_000;

/** Services that are remembered. */
const MOST_KEPT = 1_000;

interface Found {
  readonly demand: Demand;
  readonly message: string;
  readonly at: number;
}

/**
 * Services whose members had no room a moment ago, by what is known of them: the thousandth job that waits need not find
 * that out again.
 */
export class SaturationCache {
  readonly #found = new Map<string, Found>();

  note({ serviceUid, demand }: JobRecord, message: string, at: number): void {
    this.#found.delete(serviceUid);
    this.#found.set(serviceUid, { demand, message, at });
    const [oldest] = this.#found.keys();
    if (this.#found.size > MOST_KEPT && oldest !== undefined) this.#found.delete(oldest);
  }

  /** There may be room somewhere. */
  clear(): void {
    this.#found.clear();
  }

  /** What was found for a job like this one. One that entered at a member is another matter. */
  messageFor({ serviceUid, demand, openedBy }: JobRecord, now: number): string | undefined {
    const found = this.#found.get(serviceUid);
    if (!found || openedBy !== undefined || now - found.at >= BELIEVED_MS) return undefined;
    const { cpu, memory, gpu } = found.demand;
    return cpu === demand.cpu && memory === demand.memory && gpu === demand.gpu ? found.message : undefined;
  }
}
