import { INTERRUPTED } from './errors.ts';

const pending = new Set<() => void>();

function interrupted(): void {
  for (const each of pending) each();
  process.exit(INTERRUPTED);
}

/** While the work lasts, Ctrl-C does this first: to leave nothing half-done, or to say what is. */
export async function onInterrupt<T>(first: () => void, work: () => Promise<T>): Promise<T> {
  if (pending.size === 0) process.once('SIGINT', interrupted);
  pending.add(first);
  try {
    return await work();
  } finally {
    pending.delete(first);
    if (pending.size === 0) process.off('SIGINT', interrupted);
  }
}
