import type { AuthenticatedWorker } from '../../federation/index.ts';
import { federationGuard } from '../../federation/index.ts';
import { acceptJob, eventTooLarge } from '../../jobs/index.ts';
import { jobName } from '../../model/job/index.ts';
import { type AttemptKey, DelegationError, type ForwardedJob, type Permit, type Report } from '../../peers/index.ts';
import type { OriginServer } from '../server.ts';
import { type OriginDeps, requesterFor } from './origin.ts';
import { issuePermit } from './permit.ts';
import { handleReport } from './report.ts';
import { currentPlacement } from './transitions.ts';

type DeskDeps = Pick<
  OriginDeps,
  'store' | 'scheduler' | 'users' | 'objects' | 'self' | 'maxEventBytes' | 'lease' | 'clock' | 'meters' | 'onOpened'
>;

/**
 * The origin's side on a manager that does not lead. It writes requests of members into the records, as the leader
 * does; the leader does the rest when it sees the changed record.
 */
export class OriginFollower implements OriginServer {
  readonly #deps: DeskDeps;

  constructor(deps: DeskDeps) {
    this.#deps = deps;
  }

  permit(attempt: AttemptKey, from: AuthenticatedWorker): Promise<Permit> {
    return issuePermit(attempt, requesterFor(from), { ...this.#deps, onChanged: nothing });
  }

  report(attempt: AttemptKey, report: Report, from: AuthenticatedWorker): Promise<void> {
    const toDo = { onChanged: nothing, onReleased: nothing, onSucceeded: nothing, onEnded: nothing };
    return handleReport(attempt, requesterFor(from), report, { ...this.#deps, ...toDo });
  }

  open(job: ForwardedJob, from: AuthenticatedWorker): Promise<void> {
    return openJob(job, from, this.#deps);
  }

  /** How many attempts of this service a member still has. */
  async outstanding(serviceUid: string, member: string): Promise<number> {
    let held = 0;
    for await (const record of this.#deps.store.unfinished()) {
      const isHeld = record.state === 'offering' || record.state === 'delegated';
      if (isHeld && record.serviceUid === serviceUid && currentPlacement(record)?.member === member) held++;
    }
    return held;
  }
}

const nothing = () => undefined;

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/**
 * Creates a job that entered at a worker: its record is here, like those of all jobs of the federation. Its
 * rights are those of the service's token, not those of the caller. A repeated request with the same id, event and member
 * is a no-op.
 */
export async function openJob(
  { job, event, invoker, issuer }: ForwardedJob,
  from: AuthenticatedWorker,
  {
    store,
    scheduler,
    clock,
    self,
    maxEventBytes,
    users,
    onOpened,
  }: Pick<OriginDeps, 'store' | 'scheduler' | 'clock' | 'self' | 'maxEventBytes' | 'users' | 'onOpened'>,
): Promise<void> {
  const { member, service } = requesterFor(from);
  const { name } = service.definition;
  if (from.member.state === 'leaving') {
    throw new DelegationError('offer-not-allowed', 'this member is leaving the federation: invoke the coordinator');
  }
  if (job.service !== name || !isIdOf(name, job.id)) {
    throw new DelegationError(
      'offer-not-allowed',
      `a job of "${name}" has the id <service>-<uuid>: give it such an id`,
    );
  }
  if (event.length > maxEventBytes) throw eventTooLarge(maxEventBytes);
  spendOpening(store, member, clock.now());
  const refusal = federationGuard(service, 'invoke');
  if (refusal) throw refusal;

  const arrival = {
    id: job.id,
    principal: service.owner,
    // Not the text that the member sends: here it could be the uid of another user.
    invoker: users.find(issuer, invoker) ?? '',
    trigger: 'job',
    byToken: true,
    openedBy: member,
  } as const;
  const deps = { store, now: () => clock.now(), place: self.clusterId, scheduler };
  await acceptJob(service, arrival, event, deps);

  // Check after the write, because two members may send the same id at the same moment.
  const [kept, keptEvent] = await Promise.all([store.get(job), store.event(job)]);
  const isAnother = kept && (kept.openedBy !== member || !keptEvent || Buffer.compare(keptEvent, event) !== 0);
  if (isAnother) throw new DelegationError('payload-differs', `there is another job "${job.id}" of "${name}" already`);
  onOpened?.({ service: name, job: job.id, member, claimedInvoker: kept?.invoker ?? '' });
}

/**
 * How many jobs a member may open at once, and how many more each second, at each manager of this cluster. Smaller values
 * delay users who submit many jobs at a worker; larger ones let a hostile member fill the store and the queue sooner.
 */
const OPENING_BURST = 1_000;
const OPENINGS_PER_SECOND = 10;

interface Openings {
  readonly left: number;
  readonly at: number;
}

/** What each member has left, for each store of records: the leader and a follower of one manager share it. */
const openings = new WeakMap<object, Map<string, Openings>>();

function spendOpening(store: object, member: string, now: number): void {
  const members = openings.get(store) ?? new Map<string, Openings>();
  openings.set(store, members);
  const { left, at } = members.get(member) ?? { left: OPENING_BURST, at: now };
  const refilled = Math.min(OPENING_BURST, left + (Math.max(0, now - at) / 1000) * OPENINGS_PER_SECOND);
  if (refilled < 1) {
    throw new DelegationError('offer-no-room', 'this member opens too many jobs: try again later');
  }
  members.set(member, { left: refilled - 1, at: now });
}

function isIdOf(service: string, id: string): boolean {
  const uuid = id.slice(-36);
  return UUID.test(uuid) && id === jobName(service, uuid);
}
