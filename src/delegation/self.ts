import { randomBytes } from 'node:crypto';
import type { AuthenticatedWorker } from '../federation/index.ts';
import { authenticateCoordinator, authenticateWorker, type Coordination, type Workers } from '../federation/index.ts';
import { hostedAttemptName } from '../jobs/index.ts';
import { OscarError } from '../lib/oscar-error.ts';
import type { JobKey } from '../model/job/index.ts';
import {
  DelegationError,
  FederationError,
  type MemberKey,
  type Origin,
  type PeerCredentials,
  PeerError,
  type PeerErrorCode,
  type RemoteLogOptions,
  refusalByCode,
  refusedOffer,
  sign,
  type Target,
  type TargetAttempt,
} from '../peers/index.ts';
import type { AuthenticatedCoordinator, DelegationServer } from './server.ts';
import { findClaimedWorker } from './server.ts';

export interface SelfDeps {
  readonly server: DelegationServer;
  readonly workers: Workers;
  readonly coordination: Pick<Coordination, 'journal' | 'secrets' | 'services' | 'now'>;
  readonly clusterId: string;
}

/** This manager as a target of its own jobs: the same checks as over HTTP, without a connection. */
export function selfTarget(deps: SelfDeps): Target {
  const { server, clusterId } = deps;
  return {
    async offer(offer, as) {
      try {
        const from = await coordinator(as, offer.service, deps);
        return { kind: 'taken', ...(await server.offer(offer, from)) };
      } catch (error) {
        const code = error instanceof OscarError ? refusalByCode(error.code) : undefined;
        if (code) return refusedOffer(code, clusterId);
        throw peerError(error);
      }
    },

    stop: (attempt, as) =>
      told(peerError, async () => {
        const from = await coordinator(as, attempt.service, deps).catch(unlessGone);
        if (from) await server.stop(takenKey(attempt, as), from);
      }),

    async *logs(attempt: TargetAttempt, options: RemoteLogOptions, as: PeerCredentials): AsyncGenerator<Uint8Array> {
      yield* await told(peerError, async () =>
        server.logs(takenKey(attempt, as), options, await coordinator(as, attempt.service, deps)),
      );
    },

    status: (as) =>
      told(peerError, async () => {
        const from = await coordinator(as, serviceOf(as), deps);
        return { ...(await server.status(from)), roundTrip: 0 };
      }),
  };
}

/** This manager as the origin of jobs that it runs itself, as a member of its own federation. */
export function selfOrigin(deps: SelfDeps): Origin {
  const { server } = deps;
  return {
    permit: (attempt, as) =>
      told(known, async () => server.permit(attempt, await worker(as, attempt.job.service, deps))),
    report: (attempt, report, as) =>
      told(known, async () => server.report(attempt, report, await worker(as, attempt.job.service, deps))),
    open: (job, as) => told(known, async () => server.open(job, await worker(as, job.job.service, deps))),
  };
}

async function coordinator(
  as: PeerCredentials,
  service: string,
  { workers }: SelfDeps,
): Promise<AuthenticatedCoordinator> {
  await authenticateCoordinator({ ...signedBy(as, workers.catalog.now()), service }, workers);
  return findClaimedWorker(as, service, workers.catalog);
}

function worker(as: MemberKey, service: string, { coordination }: SelfDeps): Promise<AuthenticatedWorker> {
  return authenticateWorker({ ...signedBy(as, coordination.now()), service }, coordination);
}

/** Signs a request to itself, so that keys are checked by the same code as those of other managers. */
function signedBy(as: MemberKey, time: number) {
  const request = { method: 'SELF', path: '', query: '', body: '' };
  return { ...request, header: sign(request, as, { time, nonce: randomBytes(16).toString('base64url') }) };
}

const serviceOf = ({ member }: PeerCredentials) => member.split('/')[1] ?? '';

const takenKey = ({ service, job, epoch }: TargetAttempt, { uid, member }: PeerCredentials): JobKey => ({
  service,
  id: hostedAttemptName(uid, member, job, epoch, service),
});

/** Codes that mean "unreachable now": a retry may succeed. */
const AWAY = ['contended', 'unavailable', 'issuer-unavailable', 'origin-silent'];
const GONE = ['not-found', 'federation-gone', 'job-gone'];

function unlessGone(error: unknown): undefined {
  if (error instanceof OscarError && GONE.includes(error.code)) return undefined;
  throw error;
}

async function told<T>(as: (error: unknown) => unknown, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    throw as(error);
  }
}

/** Maps an error to one that a target may throw. */
function peerError(error: unknown): unknown {
  if (error instanceof PeerError || !(error instanceof OscarError)) return error;
  return new PeerError(codeOf(error.code), error.message, { cause: error });
}

/** Maps an error to one that an origin may throw. */
function known(error: unknown): unknown {
  if (error instanceof DelegationError) return error;
  return error instanceof FederationError && error.code === 'federation-gone' ? error : peerError(error);
}

function codeOf(code: string): PeerErrorCode {
  if (GONE.includes(code)) return 'gone';
  if (AWAY.includes(code)) return 'unreachable';
  return refusalByCode(code) === 'not-allowed' ? 'refused' : 'failed';
}
