import { withProgress } from '../../client/progress.ts';
import { act, clusterCommand, type Register } from '../command.ts';
import { servicePath } from '../remote-service.ts';

export const remove: Register = (program, env) => {
  const command = clusterCommand(
    program,
    'delete <service...>',
    'delete services, with their members, buckets and jobs',
  ).option('--keep-members', 'keep the members as independent services');
  act(command, env, async (session, names) => {
    const { keepMembers } = command.opts<{ keepMembers?: boolean }>();
    const cluster = await session.cluster();
    for (const name of names) {
      const path = `${servicePath(name)}${keepMembers ? '?cascade=false' : ''}`;
      const { headers } = await withProgress(
        session.terminal,
        () => `deleting ${name}`,
        () => cluster.call('DELETE', path, { about: `service "${name}"` }),
      );
      session.terminal.note(`${name} deleted`);
      const warning = headers['x-oscar-warning'];
      if (warning !== undefined) session.terminal.warn(warning);
    }
  });
};
