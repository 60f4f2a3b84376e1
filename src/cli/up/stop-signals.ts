/** How often the parent is checked. Longer: a federation outlives its `npx` for longer. Shorter: more wake-ups when idle. */
const POLL_MS = 1_000;

/**
 * Sends this process SIGHUP when its parent process has ended, even if the parent was killed.
 *
 * `oscar up` and the launcher for an old Node hold a channel to their child, which closes when they end. npm has no such
 * channel and does not forward every signal: SIGHUP ends npm itself, and `npx` sends SIGTERM to a shell that dies of it. A
 * process that npm started notices the end of its parent because its parent id changes.
 */
export function stopWithParent(env: NodeJS.ProcessEnv): void {
  if (process.channel) {
    process.once('disconnect', stop);
    // After adding the listener, because adding it references the channel again.
    process.channel.unref();
    return;
  }
  if (env['npm_lifecycle_event'] === undefined) return;
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    stop();
  }, POLL_MS);
  timer.unref();
}

const stop = () => process.kill(process.pid, 'SIGHUP');

/**
 * npm forwards a Ctrl-C that the terminal has already sent, so one arrives twice. Longer: a second Ctrl-C of the user is
 * ignored for longer. Shorter: one Ctrl-C would count as two.
 */
const REPEATED_MS = 1_000;

/**
 * Resolves at the first stop signal. A further signal calls `urgent`, except SIGHUP: it only means that the terminal or the
 * parent has ended, which often happens during a stop.
 */
export function waitForStopSignal(urgent: () => void, from: NodeJS.EventEmitter = process): Promise<NodeJS.Signals> {
  const { promise, resolve: settle } = Promise.withResolvers<NodeJS.Signals>();
  let first: number | undefined;
  const onSignal = (signal: NodeJS.Signals) => {
    first ??= Date.now();
    if (signal !== 'SIGHUP' && Date.now() - first > REPEATED_MS) urgent();
    settle(signal);
  };
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) from.on(name, onSignal);
  return promise;
}
