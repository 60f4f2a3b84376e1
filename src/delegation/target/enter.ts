import { randomUUID } from 'node:crypto';
import type { Principal } from '../../identity/index.ts';
import { eventTooLarge, jobForBytes } from '../../jobs/index.ts';
import { isSlash, trimEnd } from '../../lib/trim.ts';
import { type JobKey, jobName } from '../../model/job/index.ts';
import type { Service } from '../../model/service/index.ts';
import { DelegationError, type ForwardedJob } from '../../peers/index.ts';
import type { WorkerService } from './accept.ts';
import { attemptOverReason, contactAs } from './origin-contact.ts';
import type { TargetConfig } from './target.ts';

export interface Entered {
  /** The job's key at the coordinator. */
  readonly key: JobKey;
  /** The URL of the job there. */
  readonly location: string;
}

/**
 * Creates a job that was sent to a worker at its coordinator, which decides where it runs (decision 0034). Nothing is
 * stored here: if the coordinator does not answer, the caller retries. The caller of this function has checked that the
 * principal may invoke the service.
 */
export async function enterJob(
  principal: Principal,
  worker: WorkerService,
  event: Uint8Array,
  deps: Pick<TargetConfig, 'coordinatorOf' | 'maxEventBytes'>,
): Promise<Entered> {
  if (event.length > deps.maxEventBytes) throw eventTooLarge(deps.maxEventBytes);
  const { definition, federation } = worker;
  const { service, endpoint, clusterId } = federation.origin;
  const byToken = principal.kind === 'service-token';
  const known = byToken ? jobForBytes(event, atCoordinator(worker)) : undefined;
  const job = { service, id: known?.id ?? jobName(service, randomUUID()) };
  const member = `${definition.cluster_id}/${definition.name}`;
  const { origin, as } = await contactAs(definition.name, { member, job, epoch: 0 }, federation, deps);
  try {
    await origin.open({ job, event, ...describeCaller(principal) }, as);
  } catch (error) {
    if (attemptOverReason(error) !== undefined) throw error;
    const why = `jobs of "${definition.name}" are created at cluster "${clusterId}", which does not answer: try again`;
    throw new DelegationError('origin-silent', why, { cause: error });
  }
  return { key: job, location: `${trimEnd(endpoint, isSlash)}/system/jobs/${service}/${job.id}` };
}

/** The caller for the coordinator, which may name the users of this issuer in another way (decision 0057). */
function describeCaller(principal: Principal): Pick<ForwardedJob, 'invoker' | 'issuer'> {
  if (principal.kind !== 'user') return { invoker: '' };
  const { uid, subject = uid, issuer } = principal;
  return { invoker: subject, ...(issuer !== undefined && { issuer }) };
}

/**
 * The service as the coordinator has it: a repeated event must have the same job id there, and workers have no inputs.
 */
function atCoordinator({ federation, ...worker }: WorkerService): Service {
  return { ...worker, uid: federation.uid, definition: { ...worker.definition, name: federation.origin.service } };
}
