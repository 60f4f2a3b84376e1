import type { Terminal } from './terminal.ts';

/** What takes less needs no words. */
const PATIENCE_MS = 1_000;

/** How often a terminal is written to. */
const TICK_MS = 200;

/** Does something, and says how it goes once it takes over a second. */
export async function withProgress<T>(terminal: Terminal, say: () => string, work: () => Promise<T>): Promise<T> {
  const began = Date.now();
  let told = false;
  const timer = setInterval(() => {
    const seconds = Math.floor((Date.now() - began) / 1000);
    if (seconds * 1000 < PATIENCE_MS) return;
    if (terminal.isWatched) terminal.status(`${say()} (${seconds} s)`);
    // In a file one line is enough.
    else if (!told) terminal.note(`${say()} …`);
    told = true;
  }, TICK_MS);
  try {
    return await work();
  } finally {
    clearInterval(timer);
    terminal.status('');
  }
}
