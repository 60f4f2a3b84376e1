import type { Terminal } from './terminal.ts';

/** Work that takes less shows no progress. */
const DELAY_MS = 1_000;

/** How often the line is updated. */
const TICK_MS = 200;

/** Does the work, and shows its progress if it takes more than a second. */
export async function withProgress<T>(terminal: Terminal, describe: () => string, work: () => Promise<T>): Promise<T> {
  const began = Date.now();
  let shown = false;
  const timer = setInterval(() => {
    const seconds = Math.floor((Date.now() - began) / 1000);
    if (seconds * 1000 < DELAY_MS) return;
    if (terminal.isWatched) terminal.status(`${describe()} (${seconds} s)`);
    // Without a terminal, print the line once.
    else if (!shown) terminal.note(`${describe()} …`);
    shown = true;
  }, TICK_MS);
  try {
    return await work();
  } finally {
    clearInterval(timer);
    terminal.status('');
  }
}
