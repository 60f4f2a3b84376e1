import { hideSecrets } from '../../client/hide.ts';
import { type Column, show, showValue } from '../../client/table.ts';
import { act, type Register, secretsOption, showCommand } from '../command.ts';
import { type RemoteService, readService } from '../remote-service.ts';

const COLUMNS: readonly Column<RemoteService>[] = [
  { title: 'SERVICE', of: ({ name }) => name },
  { title: 'IMAGE', of: ({ image }) => image },
  { title: 'CPU', of: ({ cpu }) => cpu },
  { title: 'MEMORY', of: ({ memory }) => memory },
  { title: 'MEMBERS', of: ({ federation }) => String(federation?.members?.length || '') },
  { title: 'INPUT', of: ({ input }) => input.map(({ path }) => path).join(', '), wide: true },
  { title: 'OUTPUT', of: ({ output }) => output.map(({ path }) => path).join(', '), wide: true },
  { title: 'VISIBILITY', of: ({ visibility = 'private' }) => visibility, wide: true },
  { title: 'OWNER', of: ({ owner }) => owner, wide: true },
];

export const get: Register = (program, env) => {
  const command = showCommand(
    program,
    'get [service...]',
    'list services: all that you can see, or the named ones',
  ).addOption(secretsOption());
  act(command, env, async (session, names) => {
    const cluster = await session.cluster();
    const found =
      names.length === 0
        ? ((await cluster.call('GET', '/system/services')).json() as RemoteService[])
        : await Promise.all(names.map((name) => readService(cluster, name)));
    const shown = session.showSecrets ? found : (hideSecrets(found) as RemoteService[]);
    if (names.length === 1 && session.isForPrograms) return showValue(shown[0], session);
    const none = `no services on ${cluster.id}: \`oscar apply FILE\` creates some`;
    show(shown, COLUMNS, session, none);
  });
};
