import { setTimeout as pause } from 'node:timers/promises';
import type { Containers } from './engine/containers.ts';
import { EngineError } from './engine/engine.ts';
import { linesOf } from './engine/lines.ts';

/** Before a stream that broke off is opened again. */
const AGAIN_MS = 1_000;

/**
 * Says when a container runs out of memory: only the engine's events tell, as long as what is left of the script goes on.
 * Without an id: any may have, while nobody listened.
 */
export async function watchMemory(
  containers: Containers,
  tell: (id: string | undefined) => void,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    try {
      const events = await containers.memoryEvents(signal);
      tell(undefined);
      for await (const line of linesOf(events)) tell((JSON.parse(line) as { id?: string }).id);
    } catch (error) {
      if (!signal.aborted && !(error instanceof EngineError)) throw error;
    }
    await pause(AGAIN_MS, undefined, { signal }).catch(() => {});
  }
}
