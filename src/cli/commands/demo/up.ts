import { InvalidArgumentError } from 'commander';
import { ClientError } from '../../client/errors.ts';
import { stopWithParent } from '../../up/stop-signals.ts';
import { act, plainCommand, type Register } from '../command.ts';

interface Options {
  readonly clusters: number;
  readonly fresh?: boolean;
  readonly data: string;
  readonly port?: number;
  readonly demo?: boolean;
  readonly exit?: boolean;
  readonly quiet?: boolean;
}

/** The quickstart has a coordinator and two members. */
const FOR_DEMO = 3;

export const upVerb: Register = (program, env) => {
  const command = plainCommand(program, 'up', 'start a federation on this machine; Ctrl-C stops it')
    .option('--clusters <number>', 'number of clusters', wholeNumber, 4)
    .option('--data <directory>', 'data directory', '.oscar')
    .option('--port <port>', 'port of the first manager; the others get the next ones', wholeNumber)
    .option('--fresh', 'delete the data of an earlier federation first')
    .option('--demo', 'show the demo: a service on three clusters with more jobs than one can run')
    .option('--exit', 'with --demo: stop when all results exist');
  act(command, env, async (session) => {
    const { clusters, fresh = false, data, port, demo, exit = false, quiet = false } = command.opts<Options>();
    if (demo && clusters < FOR_DEMO) throw new ClientError('usage', `--demo needs --clusters ${FOR_DEMO} or more`);
    if (exit && !demo) throw new ClientError('usage', '--exit needs --demo');
    const keep = !exit;
    stopWithParent(env);
    // Loads an OIDC issuer, which other commands do not need.
    const { startFederation: start } = await import('../../up/start-federation.ts');
    const show = demo ? await demonstration(quiet, keep, env) : undefined;
    const options = { clusters, fresh, data, keep, ...(port !== undefined && { port }), ...(show && { show }) };
    await start(options, session.terminal, env);
  });
};

async function demonstration(quiet: boolean, keep: boolean, env: NodeJS.ProcessEnv) {
  const { demo } = await import('./demo.ts');
  return (config: string, stop: AbortSignal) => demo({ config, quiet, keep }, env, stop);
}

function wholeNumber(text: string): number {
  if (!/^\d{1,5}$/.test(text)) throw new InvalidArgumentError('It must be a whole number.');
  return Number(text);
}
