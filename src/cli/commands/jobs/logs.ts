import type { ClusterClient } from '../../client/cluster-client.ts';
import { ClientError } from '../../client/errors.ts';
import { act, clusterCommand, type Register, required } from '../command.ts';
import type { ListedJob } from './view.ts';

interface Options {
  readonly follow?: boolean;
  readonly timestamps?: boolean;
}

export const logs: Register = (program, env) => {
  const command = clusterCommand(
    program,
    'logs <service> [job]',
    'what the script of a job printed; of the newest if none is named',
  )
    .option('-f, --follow', 'until the job has ended')
    .option('--timestamps', 'with the time of each line');
  act(command, env, async (session, [name, id]) => {
    const { follow, timestamps } = command.opts<Options>();
    const service = required(name);
    const cluster = await session.cluster();
    const job = id ?? (await newest(cluster, service));
    if (id === undefined) session.terminal.note(`# ${job}`);
    const query = new URLSearchParams({ ...(follow && { follow: 'true' }), ...(timestamps && { timestamps: 'true' }) });
    const path = `/system/logs/${encodeURIComponent(service)}/${encodeURIComponent(job)}?${query.toString()}`;
    for await (const chunk of await cluster.stream('GET', path, { about: `job "${job}"` })) {
      await session.terminal.write(chunk as Uint8Array);
    }
  });
};

async function newest(cluster: ClusterClient, service: string): Promise<string> {
  const about = `service "${service}"`;
  const { jobs } = (await cluster.call('GET', `/system/jobs/${encodeURIComponent(service)}`, { about })).json() as {
    jobs: ListedJob[];
  };
  if (jobs[0]) return jobs[0].id;
  throw new ClientError('not-found', `${service} has no jobs yet: \`oscar job ${service}\` makes one`);
}
