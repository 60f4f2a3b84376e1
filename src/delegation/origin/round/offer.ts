import { OscarError } from '../../../base/oscar-error.ts';
import type { Secret } from '../../../base/secret.ts';
import type { JobRecord } from '../../../cluster/index.ts';
import { traceparentOf } from '../../../jobs/index.ts';
import { CLUSTER_ADMIN } from '../../../service/index.ts';
import type { Offer, OfferAnswer } from '../../terms.ts';
import { NO_METERS } from '../meters.ts';
import type { OriginDeps } from '../origin.ts';
import { pinOf } from './candidates.ts';
import type { Member, WorkingFederation } from './members.ts';

/** Everything that goes into an offer beside the record. */
export interface Offered {
  readonly member: Member;
  readonly federation: WorkingFederation;
  readonly event: Uint8Array;
  readonly bearer: Secret | undefined;
}

type Deps = Pick<OriginDeps, 'here' | 'meters' | 'report'>;

/** Asks a member to run the current attempt of a job. `silent`: it is not known what became of that. */
export async function offerJob(record: JobRecord, offered: Offered, deps: Deps): Promise<OfferAnswer | 'silent'> {
  const { meters = NO_METERS, report } = deps;
  const { member, bearer } = offered;
  const began = performance.now();
  const seconds = () => (performance.now() - began) / 1000;
  try {
    const answer = await member.target.offer(wordsOf(record, offered, deps), {
      ...member.as,
      ...(bearer && { bearer }),
    });
    meters.offered(answer.kind === 'taken' ? 'taken' : answer.code, seconds());
    return answer;
  } catch (problem) {
    meters.offered('silent', seconds());
    if (!(problem instanceof OscarError)) report(problem, record);
    return 'silent';
  }
}

function wordsOf(record: JobRecord, { member, federation, event }: Offered, { here }: Deps): Offer {
  const job = { service: record.service, id: record.id };
  return {
    job,
    epoch: record.epoch,
    service: member.service,
    from: here.clusterId,
    event,
    trigger: record.trigger === 'storage' ? 'storage' : 'job',
    pinned: pinOf(federation, record) !== undefined,
    trace: traceparentOf(job),
  };
}

/** A token of the owner for this member. Undefined where none is needed; a sentence where it cannot be had. */
export async function bearerFor(
  { type, place }: Member,
  { service }: WorkingFederation,
  { mint, report }: Pick<OriginDeps, 'mint' | 'report'>,
): Promise<Secret | string | undefined> {
  if (!mint || type === 'endpoint' || service.owner === CLUSTER_ADMIN) return undefined;
  try {
    return await mint(service, place);
  } catch (problem) {
    if (problem instanceof OscarError) return problem.message;
    report(problem, { service: service.definition.name, id: '' });
    return 'no token of the owner could be had';
  }
}
