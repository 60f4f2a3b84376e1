import { type Command, Option } from 'commander';
import { ClientError } from '../client/errors.ts';
import { ADMIN, Session } from '../client/session.ts';
import { FORMATS } from '../client/table.ts';

/** Adds a command, or several, to `oscar`. */
export type Register = (program: Command, env: NodeJS.ProcessEnv) => void;

/** A command that acts on a cluster. */
export function clusterCommand(parent: Command, usage: string, description: string): Command {
  return plainCommand(parent, usage, description).addOption(clusterOption()).addOption(asOption());
}

const clusterOption = () => new Option('-c, --cluster <id>', 'the cluster to use instead of the default');
const asOption = () => new Option('--as <who>', 'act as the administrator, also when logged in').choices([ADMIN]);
const quietOption = () => new Option('-q, --quiet', 'print only results and errors');
const configOption = () => new Option('--config <file>', 'the configuration file with the clusters');

/** A command that prints something about a cluster. */
export const showCommand = (parent: Command, usage: string, description: string) =>
  clusterCommand(parent, usage, description).addOption(formatOption());

export const formatOption = () => outputOption().default('table');

const outputOption = () => new Option('-o, --output <format>', 'output format').choices(FORMATS);

/** For commands whose output contains secrets. */
export const secretsOption = () => new Option('--show-secrets', 'print tokens, passwords and keys');

export function plainCommand(parent: Command, usage: string, description: string): Command {
  return parent.command(usage).description(description).addOption(quietOption()).addOption(configOption());
}

/** The options of most commands, which may also be written before the command: `oscar -c work get`. */
export function allowBeforeCommand(program: Command): void {
  program.enablePositionalOptions();
  const options = [clusterOption(), asOption(), quietOption(), configOption(), outputOption()];
  for (const option of options)
    program.addOption(option.helpGroup('Options of most commands, before or after the command:'));
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
    refuseForeignOptions(command);
    await how(Session.of(command, env), command.args);
  });
}

/** An option before the command must be one that the command has too. */
function refuseForeignOptions(command: Command): void {
  const known = new Set(command.options.map((option) => option.attributeName()));
  for (let parent = command.parent; parent; parent = parent.parent) {
    const foreign = parent.options.find(
      (option) => !known.has(option.attributeName()) && parent.getOptionValueSource(option.attributeName()) === 'cli',
    );
    if (foreign) throw new ClientError('usage', `\`oscar ${command.name()}\` has no option ${foreign.flags}`);
  }
}

/** An argument whose presence commander has checked. */
export function required(argument: string | undefined): string {
  if (argument === undefined) throw new Error('a required argument is missing');
  return argument;
}
