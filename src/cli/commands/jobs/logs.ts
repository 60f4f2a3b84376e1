import type { ClusterClient } from '../../client/cluster-client.ts';
import { ClientError } from '../../client/errors.ts';
import { act, clusterCommand, type Register, required } from '../command.ts';
import type { RemoteJobSummary } from './remote-job.ts';

interface Options {
  readonly follow?: boolean;
  readonly timestamps?: boolean;
}

export const logs: Register = (program, env) => {
  const command = clusterCommand(
    program,
    'logs <service> [job]',
    'print the log of a job; the newest job if none is named',
  )
    .option('-f, --follow', 'follow the log until the job has ended')
    .option('--timestamps', 'print the time of each line');
  act(command, env, async (session, [name, id]) => {
    const { follow, timestamps } = command.opts<Options>();
    const service = required(name);
    const cluster = await session.cluster();
    const job = id ?? (await findNewestJob(cluster, service));
    if (id === undefined) session.terminal.note(`# ${job}`);
    const query = new URLSearchParams({ ...(follow && { follow: 'true' }), ...(timestamps && { timestamps: 'true' }) });
    const path = `/system/logs/${encodeURIComponent(service)}/${encodeURIComponent(job)}?${query.toString()}`;
    for await (const chunk of await cluster.stream('GET', path, { about: `job "${job}"` })) {
      await session.terminal.write(chunk as Uint8Array);
    }
  });
};

async function findNewestJob(cluster: ClusterClient, service: string): Promise<string> {
  const about = `service "${service}"`;
  const { jobs } = (await cluster.call('GET', `/system/jobs/${encodeURIComponent(service)}`, { about })).json() as {
    jobs: RemoteJobSummary[];
  };
  if (jobs[0]) return jobs[0].id;
  throw new ClientError('not-found', `${service} has no jobs yet: \`oscar job ${service}\` creates one`);
}
