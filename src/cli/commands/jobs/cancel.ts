import { act, clusterCommand, type Register, required } from '../command.ts';

export const cancel: Register = (program, env) => {
  act(
    clusterCommand(program, 'cancel <service> <job...>', 'cancel jobs that are queued or running'),
    env,
    async (session, args) => {
      const [service, ...ids] = args;
      const cluster = await session.cluster();
      for (const id of ids) {
        const path = `/system/jobs/${encodeURIComponent(required(service))}/${encodeURIComponent(id)}`;
        await cluster.call('DELETE', path, { about: `job "${id}"` });
        session.terminal.note(`${id} is being cancelled`);
      }
    },
  );
};
