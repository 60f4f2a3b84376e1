import { flushCompileCache } from 'node:module';
import { describeFailure, type FromWorker, type Task, type TaskResult, type ToWorker, wrapped } from './channel.ts';
import type { Staging } from './staging.ts';
import { createTransfers } from './transfers.ts';

/** A process that moves files for the manager, and ends when the manager lets go of it or is gone. */

let staging: Staging | undefined;

async function obey(task: Task): Promise<TaskResult> {
  if (!staging) throw new Error('the worker was not told to begin');
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

/** A manager that has gone meanwhile hears nothing, and then we go too. */
const tell = (message: FromWorker) => process.send?.(message, () => {});

process.on('message', (message: ToWorker) => {
  if (message.kind === 'begin') {
    staging = createTransfers(message.networks);
    tell({ kind: 'ready' });
    // Workers end by being cut off, at a moment that is too late for Node to keep what it has compiled.
    flushCompileCache();
    return;
  }
  const { id, task } = message;
  obey(wrapped(task)).then(
    (result) => tell({ kind: 'done', id, result }),
    (error: unknown) => tell({ kind: 'failed', id, ...describeFailure(error) }),
  );
});

// These reach the whole group when somebody stops the manager, which may still have files on their way.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});
process.on('disconnect', () => process.exit());
