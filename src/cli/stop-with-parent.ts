/** How often the parent is looked for. Longer: a federation outlives its `npx` for longer. Shorter: wakes an idle process. */
const LOOK_MS = 1_000;

/**
 * Sends this process SIGHUP when the process that started it is gone, also when that was killed.
 *
 * `oscar up` and the launcher for an old Node hold a channel to their child, which closes with them. npm holds none, and
 * it does not pass every signal on: it dies of SIGHUP, and `npx` hands SIGTERM to a shell that dies of it. A process that
 * npm started is told by its parent's id, which changes when the parent ends.
 */
export function stopWithParent(env: NodeJS.ProcessEnv): void {
  if (process.channel) {
    process.once('disconnect', stop);
    // After the listener, which would hold the process.
    process.channel.unref();
    return;
  }
  if (env['npm_lifecycle_event'] === undefined) return;
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    stop();
  }, LOOK_MS);
  timer.unref();
}

const stop = () => process.kill(process.pid, 'SIGHUP');
