import { writeFileSync } from 'node:fs';
import { ClientError } from '../../client/errors.ts';
import { withProgress } from '../../client/progress.ts';
import { invokerAuthorization } from '../../client/session.ts';
import { act, clusterCommand, type Register, required } from '../command.ts';
import { type EventOptions, readEventBody, withEventOptions } from './event.ts';

interface Options extends EventOptions {
  readonly save?: string;
}

export const runCommandVerb: Register = (program, env) => {
  const command = withEventOptions(
    clusterCommand(program, 'run <service>', 'call a service and print its answer'),
  ).option('--save <file>', 'write the answer to a file');
  act(command, env, async (session, [name]) => {
    const options = command.opts<Options>();
    const service = required(name);
    const cluster = await session.cluster();
    const [as, raw] = [await invokerAuthorization(cluster, service), await readEventBody(options)];
    const about = `service "${service}"`;
    // The answer for a failed script is 500 with its output.
    const expect = [500];
    const call = { as, raw, about, expect, patienceMs: 'for-ever' as const };
    const answer = await withProgress(
      session.terminal,
      () => `${service} runs on ${cluster.id}`,
      () => cluster.call('POST', `/run/${encodeURIComponent(service)}`, call),
    );
    const bytes = decodeOutput(answer.text);
    if (options.save === undefined) await session.terminal.write(bytes);
    else writeFileSync(options.save, bytes);
    if (answer.status !== 500) return;
    const code = answer.headers['x-oscar-exit-code'];
    throw new ClientError(
      'job-failed',
      code === undefined ? 'the script failed' : `the script ended with exit code ${code}`,
    );
  });
};

/** The answer is one output file in base64, or what the script printed. oscar-cli distinguishes them in the same way. */
function decodeOutput(text: string): Buffer {
  const isBase64 = text.length > 0 && text.length % 4 === 0 && /^[A-Za-z0-9+/]+={0,2}$/.test(text);
  return isBase64 ? Buffer.from(text, 'base64') : Buffer.from(text);
}
