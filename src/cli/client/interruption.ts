import { INTERRUPTED } from './errors.ts';

const pending = new Set<() => void>();

function interrupted(): void {
  for (const each of pending) each();
  process.exit(INTERRUPTED);
}

/** Runs the work. On Ctrl-C, calls `first` before the process exits, to clean up or to report what is unfinished. */
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
