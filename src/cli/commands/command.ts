import { type Command, Option } from 'commander';
import { Session } from '../client/session.ts';
import { FORMATS } from '../client/table.ts';

/** Adds a command, or several, to `oscar`. */
export type Register = (program: Command, env: NodeJS.ProcessEnv) => void;

/** A command that acts on a cluster. */
export function clusterCommand(parent: Command, usage: string, description: string): Command {
  return plainCommand(parent, usage, description).option(
    '-c, --cluster <id>',
    'the cluster to use instead of the default',
  );
}

/** A command that prints something about a cluster. */
export const showCommand = (parent: Command, usage: string, description: string) =>
  clusterCommand(parent, usage, description).addOption(formatOption());

export const formatOption = () =>
  new Option('-o, --output <format>', 'output format').choices(FORMATS).default('table');

/** For commands whose output contains secrets. */
export const secretsOption = () => new Option('--show-secrets', 'print tokens, passwords and keys');

export function plainCommand(parent: Command, usage: string, description: string): Command {
  return parent
    .command(usage)
    .description(description)
    .option('-q, --quiet', 'print only results and errors')
    .option('--config <file>', 'the configuration file with the clusters');
}

/**
 * Sets the action of a command. It receives the session and the arguments as they were written.
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

/** An argument whose presence commander has checked. */
export function required(argument: string | undefined): string {
  if (argument === undefined) throw new Error('a required argument is missing');
  return argument;
}
