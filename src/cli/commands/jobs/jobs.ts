import { show } from '../../client/table.ts';
import { act, type Register, required, showCommand } from '../command.ts';
import { JOB_COLUMNS, type RemoteJobSummary } from './remote-job.ts';

interface Options {
  readonly state?: string;
  readonly all?: boolean;
}

export const jobsVerb: Register = (program, env) => {
  const command = showCommand(program, 'jobs <service>', 'list the jobs of a service, newest first')
    .option('--state <states>', 'only jobs in these states, separated by commas')
    .option('--all', 'list all jobs, not only the newest');
  act(command, env, async (session, [name]) => {
    const { state, all } = command.opts<Options>();
    const service = required(name);
    const cluster = await session.cluster();
    const found: RemoteJobSummary[] = [];
    let page: string | undefined;
    do {
      const query = new URLSearchParams({ ...(state && { state }), ...(page && { page }) });
      const path = `/system/jobs/${encodeURIComponent(service)}?${query.toString()}`;
      const answer = (await cluster.call('GET', path, { about: `service "${service}"` })).json() as {
        jobs: RemoteJobSummary[];
        next_page?: string;
      };
      found.push(...answer.jobs);
      page = answer.next_page;
      if (!all) break;
    } while (page !== undefined);
    show(found, JOB_COLUMNS, session, `${service} has no ${state ? `${state} ` : ''}jobs`);
    if (page !== undefined) session.terminal.note('there are more jobs: list them with --all');
  });
};
