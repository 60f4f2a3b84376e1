import { hideSecrets } from '../../client/hide.ts';
import { showValue } from '../../client/table.ts';
import { act, type Register, secretsOption, showCommand } from '../command.ts';

export const config: Register = (program, env) => {
  const command = showCommand(
    program,
    'config',
    'show the configuration of a cluster and your keys for its store',
  ).addOption(secretsOption());
  act(command, env, async (session) => {
    const cluster = await session.cluster();
    const answer = (await cluster.call('GET', '/system/config')).json();
    session.terminal.note(`# ${cluster.id} at ${cluster.entry.endpoint}, from ${session.config.path}`);
    showValue(session.showSecrets ? answer : hideSecrets(answer), session);
  });
};
