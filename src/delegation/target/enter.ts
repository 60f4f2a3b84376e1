import { randomUUID } from 'node:crypto';
import type { JobKey } from '../../cluster/index.ts';
import type { Principal } from '../../identity/index.ts';
import { eventJob, eventTooLarge } from '../../jobs/index.ts';
import type { Service } from '../../service/index.ts';
import { jobName } from '../../storage/index.ts';
import { DelegationError } from '../errors.ts';
import type { WorkerService } from './accept.ts';
import type { HostingParts } from './hosting.ts';
import { overBecause, wordAs } from './word.ts';

export interface Entered {
  /** At the coordinator. */
  readonly key: JobKey;
  /** Where it can be looked at. */
  readonly location: string;
}

/**
 * A job that came to a worker is opened at its coordinator, which decides where it runs (design §7). Nothing is kept here:
 * if the coordinator does not answer, whoever called tries again. The caller has checked that the principal may invoke.
 */
export async function enterJob(
  principal: Principal,
  worker: WorkerService,
  event: Uint8Array,
  hosting: Pick<HostingParts, 'coordinatorOf' | 'maxEventBytes'>,
): Promise<Entered> {
  if (event.length > hosting.maxEventBytes) throw eventTooLarge(hosting.maxEventBytes);
  const { definition, federation } = worker;
  const { service, endpoint, clusterId } = federation.origin;
  const byToken = principal.kind === 'service-token';
  const known = byToken ? eventJob(event, atCoordinator(worker)) : undefined;
  const job = { service, id: known?.id ?? jobName(service, randomUUID()) };
  const member = `${definition.cluster_id}/${definition.name}`;
  const { origin, as } = await wordAs(definition.name, { member, job, epoch: 0 }, federation, hosting);
  try {
    await origin.open({ job, event, invoker: principal.kind === 'user' ? principal.uid : '' }, as);
  } catch (error) {
    if (overBecause(error) !== undefined) throw error;
    const why = `jobs of "${definition.name}" are opened at cluster "${clusterId}", which does not answer: try again`;
    throw new DelegationError('origin-silent', why, { cause: error });
  }
  return { key: job, location: `${endpoint.replace(/\/+$/, '')}/system/jobs/${service}/${job.id}` };
}

/** As the coordinator has it: there an event that comes twice must be one job, and here there are no inputs. */
function atCoordinator({ federation, ...worker }: WorkerService): Service {
  return { ...worker, uid: federation.uid, definition: { ...worker.definition, name: federation.origin.service } };
}
