import { writeFileSync } from 'node:fs';
import { ClientError } from '../../client/errors.ts';
import { withProgress } from '../../client/progress.ts';
import { invoker } from '../../client/session.ts';
import { act, clusterCommand, type Register, required } from '../command.ts';
import { type EventOptions, eventToSend, withEvent } from './event.ts';

interface Options extends EventOptions {
  readonly save?: string;
}

export const runCommandVerb: Register = (program, env) => {
  const command = withEvent(
    clusterCommand(program, 'run <service>', 'run a service now, and wait for its answer'),
  ).option('--save <file>', 'write the answer into a file');
  act(command, env, async (session, [name]) => {
    const options = command.opts<Options>();
    const service = required(name);
    const cluster = await session.cluster();
    const [as, raw] = [await invoker(cluster, service), await eventToSend(options)];
    const about = `service "${service}"`;
    // A script that failed is answered with what it printed.
    const expect = [500];
    const call = { as, raw, about, expect, patienceMs: 'for-ever' as const };
    const answer = await withProgress(
      session.terminal,
      () => `${service} runs at ${cluster.id}`,
      () => cluster.call('POST', `/run/${encodeURIComponent(service)}`, call),
    );
    const bytes = decoded(answer.text);
    if (options.save === undefined) await session.terminal.write(bytes);
    else writeFileSync(options.save, bytes);
    if (answer.status !== 500) return;
    const code = answer.headers['x-oscar-exit-code'];
    throw new ClientError(
      'job-failed',
      code === undefined ? 'the script failed' : `the script ended with exit code ${String(code)}`,
    );
  });
};

/** One output file comes as base64, what a script printed as it is; oscar-cli tells them apart in this way, too. */
function decoded(text: string): Buffer {
  const isBase64 = text.length > 0 && text.length % 4 === 0 && /^[A-Za-z0-9+/]+={0,2}$/.test(text);
  return isBase64 ? Buffer.from(text, 'base64') : Buffer.from(text);
}
