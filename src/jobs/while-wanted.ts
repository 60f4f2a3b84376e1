/** The same items, until the signal: then no more of them, also if nothing comes by itself any more. */
export async function* whileWanted<T>(items: AsyncIterable<T>, until: AbortSignal): AsyncGenerator<T, undefined> {
  const iterator = items[Symbol.asyncIterator]();
  const { promise: over, resolve } = Promise.withResolvers<undefined>();
  const end = () => resolve(undefined);
  until.addEventListener('abort', end, { once: true });
  if (until.aborted) end();
  try {
    for (;;) {
      const next = await Promise.race([iterator.next(), over]);
      if (!next || next.done) return;
      yield next.value;
    }
  } finally {
    until.removeEventListener('abort', end);
    // Nobody waits for that: it may be waiting itself, for something that never comes.
    iterator.return?.().catch(() => undefined);
  }
}
