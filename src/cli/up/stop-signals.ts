/**
 * npm passes a Ctrl-C on that the terminal has sent already, so that one comes as two. Longer: somebody in a hurry waits.
 * Shorter: `npm start` would be cut off at the first one.
 */
const SAME_MS = 1_000;

/** Resolves at the first signal to stop; whoever sends another one does not want to wait. */
export function toldToStop(urgent: () => void): Promise<NodeJS.Signals> {
  const { promise, resolve } = Promise.withResolvers<NodeJS.Signals>();
  let first: number | undefined;
  const heard = (signal: NodeJS.Signals) => {
    first ??= Date.now();
    if (Date.now() - first > SAME_MS) urgent();
    resolve(signal);
  };
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, heard);
  return promise;
}
