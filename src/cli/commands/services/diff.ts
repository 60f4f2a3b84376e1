import { ClientError } from '../../client/errors.ts';
import type { Session } from '../../client/session.ts';
import { showValue } from '../../client/table.ts';
import { act, type Register, required, showCommand } from '../command.ts';
import type { Compared } from './compare.ts';

export const diff: Register = (program, env) => {
  const command = showCommand(
    program,
    'diff <file>',
    'show what `apply` would change; secrets are not compared',
  ).option('--exit-code', 'exit with 1 if there is a difference');
  act(command, env, async (session, [file]) => {
    const { exitCode } = command.opts<{ exitCode?: boolean }>();
    const [{ prepareFile }, { compare }] = await Promise.all([import('./prepare.ts'), import('./compare.ts')]);
    const services = await prepareFile(required(file), session);
    const found = await Promise.all(services.map(compare));
    if (session.isForPrograms) showValue(found, session);
    else for (const each of found) print(each, session);
    const differ = found.filter(({ lines }) => lines.length > 0).map(({ service }) => service);
    if (exitCode && differ.length > 0) throw new ClientError('failed', `changed: ${differ.join(', ')}`);
  });
};

function print({ service, cluster, isNew, lines }: Compared, { terminal }: Session): void {
  if (lines.length === 0) return terminal.note(`${service} on ${cluster}: no difference`);
  terminal.print(`${service} on ${cluster}${isNew ? ' is new' : ''}`);
  for (const line of lines) {
    const colour = line.startsWith('+') ? 'green' : line.startsWith('-') ? 'red' : 'dim';
    terminal.print(terminal.colour(colour, line));
  }
}
