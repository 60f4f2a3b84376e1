import { InvalidArgumentError } from 'commander';
import { act, plainCommand, type Register } from './command.ts';

interface Options {
  readonly clusters: number;
  readonly fresh?: boolean;
  readonly data: string;
  readonly port?: number;
}

export const up: Register = (program, env) => {
  const command = plainCommand(program, 'up', 'a federation on this machine, until Ctrl-C')
    .option('--clusters <number>', 'how many clusters', wholeNumber, 4)
    .option('--data <directory>', 'where everything is kept', '.oscar')
    .option('--port <port>', 'of the first manager; the others follow', wholeNumber)
    .option('--fresh', 'forget what an earlier one has kept there');
  act(command, env, async (session) => {
    const { clusters, fresh = false, data, port } = command.opts<Options>();
    // It brings an issuer along, which other commands do not need.
    const { up: start } = await import('../up/up.ts');
    await start({ clusters, fresh, data, ...(port !== undefined && { port }) }, session.terminal, env);
  });
};

function wholeNumber(text: string): number {
  if (!/^\d{1,5}$/.test(text)) throw new InvalidArgumentError('It must be a whole number.');
  return Number(text);
}
