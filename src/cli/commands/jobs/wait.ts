import { setTimeout as pause } from 'node:timers/promises';
import type { ClusterClient } from '../../client/cluster-client.ts';
import { ClientError } from '../../client/errors.ts';
import { withProgress } from '../../client/progress.ts';
import type { Terminal } from '../../client/terminal.ts';
import { FINAL, type ListedJob } from './view.ts';

const LOOK_MS = 300;

/** Waits for the end of a job; one that did not succeed is an error. */
export async function ended(cluster: ClusterClient, service: string, id: string, terminal: Terminal): Promise<void> {
  const path = `/system/jobs/${encodeURIComponent(service)}/${encodeURIComponent(id)}`;
  let seen: ListedJob | undefined;
  await withProgress(
    terminal,
    () => `${id}: ${seen?.message ?? 'accepted'}`,
    async () => {
      for (;;) {
        seen = (await cluster.call('GET', path, { about: `job "${id}"` })).json() as ListedJob;
        if (FINAL.has(seen.state)) return;
        await pause(LOOK_MS);
      }
    },
  );
  if (seen?.state === 'succeeded') return terminal.note('succeeded');
  throw new ClientError('job-failed', `${seen?.state}: ${seen?.message}. \`oscar logs ${service} ${id}\` shows more`);
}
