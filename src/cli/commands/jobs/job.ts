import { invoker, type Session } from '../../client/session.ts';
import { showValue } from '../../client/table.ts';
import { act, type Register, required, showCommand } from '../command.ts';
import { type EventOptions, eventToSend, withEvent } from './event.ts';
import { ended } from './wait.ts';

interface Options extends EventOptions {
  readonly wait?: boolean;
}

export const jobVerb: Register = (program, env) => {
  const command = withEvent(
    showCommand(program, 'job <service>', 'run a service some time soon; says the id of the job'),
  ).option('-w, --wait', 'wait until it has ended');
  act(command, env, async (session, [name]) => {
    const options = command.opts<Options>();
    const service = required(name);
    const cluster = await session.cluster();
    const [as, raw] = [await invoker(cluster, service), await eventToSend(options)];
    const about = `service "${service}"`;
    const { headers } = await cluster.call('POST', `/job/${encodeURIComponent(service)}`, { as, raw, about });
    const id = String(headers['x-oscar-job-id'] ?? '');
    showSubmitted(id, service, session);
    if (options.wait) await ended(cluster, service, id, session.terminal);
  });
};

function showSubmitted(id: string, service: string, session: Session): void {
  if (session.isForPrograms) return showValue({ id, service }, session);
  // The Go manager does not say it.
  session.terminal.print(id || `accepted: \`oscar jobs ${service}\` shows it`);
}
