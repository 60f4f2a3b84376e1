import { CONNECTIONS, ROUND_SECONDS } from './throughput.ts';

/**
 * How often per second something gets done, by as many at once as there are connections. What is begun is waited for
 * and counts, which matters where one takes long; `throughput` asks faster.
 */
export async function atOnce(work: (connection: number) => Promise<unknown>): Promise<number> {
  const begun = performance.now();
  const end = begun + ROUND_SECONDS * 1_000;
  let done = 0;
  const worker = async (_: unknown, connection: number) => {
    while (performance.now() < end) {
      await work(connection);
      done++;
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, worker));
  return done / ((performance.now() - begun) / 1_000);
}
