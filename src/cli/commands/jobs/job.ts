import { setTimeout as pause } from 'node:timers/promises';
import type { ClusterClient } from '../../client/cluster-client.ts';
import { ClientError } from '../../client/errors.ts';
import { withProgress } from '../../client/progress.ts';
import { invokerAuthorization, type Session } from '../../client/session.ts';
import { showValue } from '../../client/table.ts';
import type { Terminal } from '../../client/terminal.ts';
import { act, type Register, required, showCommand } from '../command.ts';
import { type EventOptions, readEventBody, withEventOptions } from './event.ts';
import { FINAL_STATES, type RemoteJobSummary } from './remote-job.ts';

interface Options extends EventOptions {
  readonly wait?: boolean;
}

export const jobVerb: Register = (program, env) => {
  const command = withEventOptions(showCommand(program, 'job <service>', 'queue a job and print its id')).option(
    '-w, --wait',
    'wait until the job has ended',
  );
  act(command, env, async (session, [name]) => {
    const options = command.opts<Options>();
    const service = required(name);
    const cluster = await session.cluster();
    const [as, raw] = [await invokerAuthorization(cluster, service), await readEventBody(options)];
    const about = `service "${service}"`;
    const { headers } = await cluster.call('POST', `/job/${encodeURIComponent(service)}`, { as, raw, about });
    const id = headers['x-oscar-job-id'] ?? '';
    showSubmitted(id, service, session);
    if (options.wait) await waitForJob(cluster, service, id, session.terminal);
  });
};

function showSubmitted(id: string, service: string, session: Session): void {
  if (session.isForPrograms) return showValue({ id, service }, session);
  // The Go manager does not return the id.
  session.terminal.print(id || `accepted: \`oscar jobs ${service}\` shows it`);
}

const POLL_MS = 300;

/** Waits until the job has ended. Throws if it did not succeed. */
async function waitForJob(cluster: ClusterClient, service: string, id: string, terminal: Terminal): Promise<void> {
  const path = `/system/jobs/${encodeURIComponent(service)}/${encodeURIComponent(id)}`;
  let seen: RemoteJobSummary | undefined;
  await withProgress(
    terminal,
    () => `${id}: ${seen?.message ?? 'accepted'}`,
    async () => {
      for (;;) {
        seen = (await cluster.call('GET', path, { about: `job "${id}"` })).json() as RemoteJobSummary;
        if (FINAL_STATES.has(seen.state)) return;
        await pause(POLL_MS);
      }
    },
  );
  if (seen?.state === 'succeeded') return terminal.note('succeeded');
  throw new ClientError(
    'job-failed',
    `${seen?.state}: ${seen?.message}. \`oscar logs ${service} ${id}\` shows its log`,
  );
}
