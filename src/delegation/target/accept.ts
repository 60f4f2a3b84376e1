import { hash } from 'node:crypto';
import { hostedAttemptName, jobKeyText, serviceDemand } from '../../jobs/index.ts';
import { accepted, type JobKey, type JobRecord, type NewJob, type TakenJob } from '../../model/job/index.ts';
import type { Service } from '../../model/service/index.ts';
import { DelegationError, type Offer, type Permit } from '../../peers/index.ts';
import { attemptOverReason, contactAs, type OriginContact, originStoreAccess } from './origin-contact.ts';
import { keepReporting } from './reporting.ts';
import type { TargetDeps, WorkerRole } from './target.ts';

/** A service that runs jobs of another cluster. */
export type WorkerService = Service & { readonly federation: WorkerRole };

export interface TakenOffer {
  /** The name of the attempt at the target. */
  readonly attempt: string;
  /** The offer had been accepted before. */
  readonly repeated: boolean;
}

/** An offer may take ten seconds, of which five are for the permit. */
const HEAD_DEADLINE = 4_000;

/** How long a store that answered counts as reachable, if nothing must be read from it before the script runs. */
const REACHED_MS = 30_000;

/**
 * Handles an offer (docs/delegation.md#how). The job is on disk before this resolves; a failure before that leaves
 * nothing behind. Repeated offers, even concurrent ones, resolve to the same attempt.
 */
export async function acceptOffer(
  offer: Offer,
  worker: WorkerService,
  member: string,
  deps: TargetDeps,
): Promise<TakenOffer> {
  const service = worker.definition.name;
  const { uid, origin } = worker.federation;
  const key = { service, id: hostedAttemptName(uid, member, offer.job, offer.epoch, service) };
  const payload = hash('sha256', offer.event);
  const answer = offer.trigger === 'run' && { answer: true as const };
  const { job, epoch } = offer;
  const asked: TakenJob = { uid, member, origin: origin.clusterId, job, epoch, payload, ...answer };
  return deps.mutex.run(jobKeyText(key), async () => {
    const known = await deps.store.get(key);
    if (known) return answerRepeatedOffer(known, payload, deps);
    const room = reserveRoom(key, offer, worker, deps);
    const considered =
      room === 'reserved'
        ? deps.room.consider(worker.federation.origin.clusterId, serviceDemand(worker.definition))
        : deps.room.enter();
    try {
      const contact = await contactAs(service, asked, worker.federation, deps);
      const permit = await requestPermit(contact, offer.from);
      await proveReadable(permit, contact, deps);
      deps.permits.keep({ ...key, taken: asked }, permit);
      return await keep(key, { ...asked, files: toFiles(permit) }, offer, worker, room, deps);
    } catch (error) {
      releaseRoom(key, worker, deps);
      deps.permits.forget(key);
      throw error;
    } finally {
      considered();
    }
  });
}

function answerRepeatedOffer(record: JobRecord, payload: string, { dispatcher }: TargetDeps): TakenOffer {
  const { id, taken, state } = record;
  if (taken?.payload === payload) {
    // A queued job may have been stored by a try that failed right after.
    if (state === 'queued') dispatcher.enqueue(record);
    return { attempt: id, repeated: true };
  }
  throw new DelegationError('payload-differs', 'another event was already offered for the same job and epoch');
}

interface ReservationDeps extends Pick<TargetDeps, 'capacity' | 'quotas'> {
  readonly dispatcher: Pick<TargetDeps['dispatcher'], 'waiting'>;
  readonly room: Pick<TargetDeps['room'], 'queue'>;
}

/**
 * Reserves capacity for the job now, or lets it wait in the queue: a pinned job always, another one if its origin allows it
 * and few jobs wait here. An offer never overtakes jobs that wait here already.
 */
export function reserveRoom(
  key: JobKey,
  offer: Pick<Offer, 'pinned' | 'queue'>,
  worker: Service,
  deps: ReservationDeps,
): 'reserved' | 'waits' {
  const { capacity, dispatcher, quotas } = deps;
  const demand = serviceDemand(worker.definition);
  const impossible = capacity.shortage?.() ?? capacity.refusal(demand);
  if (impossible !== undefined) throw new DelegationError('offer-no-room', impossible);
  const short = quotas.reserve(key, worker, demand);
  if (short !== undefined && !offer.pinned) throw new DelegationError('offer-no-room', short);
  if (dispatcher.waiting === 0 && capacity.reserve(jobKeyText(key), demand)) return 'reserved';
  if (offer.pinned || (offer.queue && deps.room.queue > 0)) return 'waits';
  quotas.release(key, worker);
  throw new DelegationError('offer-no-room', `there is no room for a job of "${worker.definition.name}" now`);
}

function releaseRoom(key: JobKey, worker: WorkerService, { capacity, quotas }: TargetDeps): void {
  capacity.release(jobKeyText(key));
  quotas.release(key, worker);
}

async function requestPermit({ origin, attempt, as }: OriginContact, from: string): Promise<Permit> {
  try {
    return await origin.permit(attempt, as);
  } catch (error) {
    if (attemptOverReason(error) !== undefined) throw error;
    const why = `cluster "${from}" offered a job but did not answer the request for its permit`;
    throw new DelegationError('origin-silent', why, { cause: error });
  }
}

/** A target that cannot read the input, or could not write the results, must not run the script first. */
async function proveReadable(
  { input, store, staging }: Permit,
  { role }: OriginContact,
  deps: TargetDeps,
): Promise<void> {
  const { reachableStores, now } = deps;
  if (!input && now() - (reachableStores.get(store.endpoint) ?? -Infinity) < REACHED_MS) return;
  const access = originStoreAccess(store, role.origin, deps.stores);
  const until = AbortSignal.timeout(HEAD_DEADLINE);
  const object = input ?? { bucket: staging.bucket, key: staging.manifest };
  const problem = await (input ? deps.unreadable : deps.unreachable)(object, access, until);
  if (problem === undefined) return void reachableStores.set(store.endpoint, now());
  reachableStores.delete(store.endpoint);
  throw new DelegationError('input-unreadable', `${object.bucket}/${object.key} cannot be read from here: ${problem}`);
}

const toFiles = ({ input, staging }: Permit) => ({ ...(input && { input }), staging });

async function keep(
  key: JobKey,
  taken: TakenJob,
  offer: Offer,
  worker: WorkerService,
  room: 'reserved' | 'waits',
  deps: TargetDeps,
): Promise<TakenOffer> {
  const { definition, uid: serviceUid, owner } = worker;
  const { store, dispatcher, capacity, now, place } = deps;
  const job: NewJob = {
    ...key,
    serviceUid,
    owner,
    principal: owner,
    invoker: '',
    // The caller waits at the origin: this job goes on when a manager here restarts.
    trigger: offer.trigger === 'run' ? 'job' : offer.trigger,
    // The job has no rights at the store of this cluster: its files are at the origin, with keys of the origin.
    byToken: true,
    demand: serviceDemand(definition),
    acceptedAt: now(),
    taken,
  };
  const { outcome, record } = await store.accept(job, accepted(job.acceptedAt, place), offer.event);
  if (outcome === 'exists') {
    // Another manager of this cluster was faster, and runs the job.
    releaseRoom(key, worker, deps);
    if (record) return answerRepeatedOffer(record, taken.payload, deps);
    throw new DelegationError('fenced', 'this attempt was accepted before and has been removed');
  }
  if (room === 'reserved' && record?.held === undefined) dispatcher.begin(job);
  else {
    // A job that the cluster has not admitted yet must not keep capacity reserved.
    capacity.release(jobKeyText(key));
    dispatcher.enqueue(record ?? job);
    if (record) keepReporting(record, 'queued', deps.closing, deps);
  }
  return { attempt: key.id, repeated: false };
}
