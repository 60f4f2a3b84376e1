import { flushCompileCache } from 'node:module';
import { describeFailure, type FromWorker, type Task, type TaskResult, type ToWorker, wrapSecrets } from './channel.ts';
import type { Staging } from './staging.ts';
import { createTransfers } from './transfers.ts';

/** A process that moves files for the manager. It ends when the manager disconnects or ends. */

let staging: Staging | undefined;

async function execute(task: Task): Promise<TaskResult> {
  if (!staging) throw new Error('the worker got a task before its configuration');
  switch (task.kind) {
    case 'fetch':
      await staging.fetch(task.order);
      return undefined;
    case 'plan':
      return staging.plan(...task.parameters);
    case 'upload':
      return staging.upload(task.order);
    case 'pack':
      return staging.pack(...task.parameters);
  }
}

/** Send errors are ignored: if the manager has ended, this process ends too. */
const send = (message: FromWorker) => process.send?.(message, () => {});

process.on('message', (message: ToWorker) => {
  if (message.kind === 'begin') {
    staging = createTransfers(message.networks);
    send({ kind: 'ready' });
    // Workers end by disconnection, and then Node.js would not write its compile cache.
    flushCompileCache();
    return;
  }
  const { id, task } = message;
  execute(wrapSecrets(task)).then(
    (result) => send({ kind: 'done', id, result }),
    (error: unknown) => send({ kind: 'failed', id, ...describeFailure(error) }),
  );
});

// A terminal sends these signals to the whole process group, but a stopping manager may still need this worker.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});
process.on('disconnect', () => process.exit());
