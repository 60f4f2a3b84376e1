import { type Command, Option } from 'commander';
import { Session } from '../client/session.ts';
import { FORMATS } from '../client/table.ts';

/** Adds a command, or several, to `oscar`. */
export type Register = (program: Command, env: NodeJS.ProcessEnv) => void;

/** A command that does something at a cluster. */
export function clusterCommand(parent: Command, usage: string, description: string): Command {
  return plainCommand(parent, usage, description).option('-c, --cluster <id>', 'the cluster, if not the default one');
}

/** A command that shows something of a cluster. */
export const showCommand = (parent: Command, usage: string, description: string) =>
  clusterCommand(parent, usage, description).addOption(formatOption());

export const formatOption = () =>
  new Option('-o, --output <format>', 'how the answer is shown').choices(FORMATS).default('table');

/** Of a command that shows something with secrets in it. */
export const secretsOption = () => new Option('--show-secrets', 'show tokens, passwords and keys');

export function plainCommand(parent: Command, usage: string, description: string): Command {
  return parent
    .command(usage)
    .description(description)
    .option('-q, --quiet', 'only results and errors')
    .option('--config <file>', 'the file that names the clusters');
}

/**
 * What a command does: it gets the session, and its arguments as they were written.
 *
 * @example
 * act(clusterCommand(program, 'cancel <service> <job>', '…'), env, async (session, [service, job]) => …);
 */
export function act(
  command: Command,
  env: NodeJS.ProcessEnv,
  how: (session: Session, args: readonly string[]) => Promise<void> | void,
): void {
  command.action(async () => {
    await how(Session.of(command, env), command.args);
  });
}

/** An argument that commander has seen to. */
export function required(argument: string | undefined): string {
  if (argument === undefined) throw new Error('a required argument is missing');
  return argument;
}
