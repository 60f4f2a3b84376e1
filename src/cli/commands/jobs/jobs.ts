import { show } from '../../client/table.ts';
import { act, type Register, required, showCommand } from '../command.ts';
import { JOB_COLUMNS, type ListedJob } from './view.ts';

interface Options {
  readonly state?: string;
  readonly all?: boolean;
}

export const jobsVerb: Register = (program, env) => {
  const command = showCommand(program, 'jobs <service>', 'the jobs of a service, newest first')
    .option('--state <states>', 'only these, with commas between')
    .option('--all', 'all of them, not only the newest');
  act(command, env, async (session, [name]) => {
    const { state, all } = command.opts<Options>();
    const service = required(name);
    const cluster = await session.cluster();
    const found: ListedJob[] = [];
    let page: string | undefined;
    do {
      const query = new URLSearchParams({ ...(state && { state }), ...(page && { page }) });
      const path = `/system/jobs/${encodeURIComponent(service)}?${query.toString()}`;
      const answer = (await cluster.call('GET', path, { about: `service "${service}"` })).json() as {
        jobs: ListedJob[];
        next_page?: string;
      };
      found.push(...answer.jobs);
      page = answer.next_page;
      if (!all) break;
    } while (page !== undefined);
    show(found, JOB_COLUMNS, session, `${service} has no jobs${state ? ` that are ${state}` : ''}`);
    if (page !== undefined) session.terminal.note('there are more: --all shows them');
  });
};
