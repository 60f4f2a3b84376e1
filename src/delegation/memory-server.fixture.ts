import type { AuthenticatedWorker } from '../federation/index.ts';
import { signatureErrors } from '../federation/index.ts';
import { hostedAttemptName } from '../jobs/index.ts';
import { Secret } from '../lib/secret.ts';
import type { Snapshot } from '../model/cluster-snapshot.ts';
import type { JobKey } from '../model/job/index.ts';
import {
  type AttemptKey,
  DelegationError,
  type ForwardedJob,
  type Offer,
  type Permit,
  type RemoteLogOptions,
  type Report,
} from '../peers/index.ts';
import type { AuthenticatedCoordinator, DelegationServer } from './server.ts';

export const SNAPSHOT: Snapshot = {
  nodes: [
    { cpu: 4000, memory: 8 * 2 ** 30, gpu: 0 },
    { cpu: 500, memory: 2 ** 20, gpu: 1 },
  ],
  freeCpu: 4500,
  nodeCount: 3,
  age: 0,
  pending: 2,
};

export const PERMIT: Permit = {
  store: {
    endpoint: 'https://store.example',
    region: 'us-east-1',
    verify: true,
    accessKey: new Secret('access'),
    secretKey: new Secret('very/secret+key='),
    sessionToken: new Secret('session'),
    expiresAt: 1_767_225_600_000,
  },
  input: { bucket: 'cow', key: 'in/a file; with "signs" – ü.png' },
  staging: { bucket: 'oscar-staging', prefix: 'cow/job/3/', manifest: 'cow/job/3/manifest.json' },
  lease: 90_000,
};

/** A delegation server in memory. It records requests and their senders, and returns the answers that the test sets. */
export class MemoryServer implements DelegationServer {
  readonly offers: { readonly offer: Offer; readonly from: AuthenticatedCoordinator }[] = [];
  readonly attempts = new Map<string, Offer>();
  readonly stopped: JobKey[] = [];
  readonly permits: { readonly attempt: AttemptKey; readonly from: AuthenticatedWorker }[] = [];
  readonly reports: { readonly attempt: AttemptKey; readonly report: Report; readonly from: AuthenticatedWorker }[] =
    [];
  readonly opened: { readonly job: ForwardedJob; readonly from: AuthenticatedWorker }[] = [];
  readonly logOptions: RemoteLogOptions[] = [];
  permitted: Permit = PERMIT;
  printed: AsyncIterable<Uint8Array> | undefined;
  /** Thrown instead of an answer. */
  problem: Error | undefined;

  async offer(offer: Offer, from: AuthenticatedCoordinator) {
    this.#fail();
    this.offers.push({ offer, from });
    const attempt = hostedAttemptName(from.uid, from.member, offer.job, offer.epoch, offer.service);
    const known = this.attempts.get(attempt);
    if (known && !Buffer.from(known.event).equals(offer.event)) {
      throw new DelegationError('payload-differs', 'another event came under this offer');
    }
    this.attempts.set(attempt, offer);
    return { attempt };
  }

  async stop(attempt: JobKey) {
    this.#fail();
    if (this.attempts.delete(attempt.id)) this.stopped.push(attempt);
  }

  async logs({ id }: JobKey, options: RemoteLogOptions) {
    this.#fail();
    if (!this.attempts.has(id)) throw new DelegationError('job-gone', 'there is no such attempt');
    this.logOptions.push(options);
    return this.printed ?? printing();
  }

  async status() {
    this.#fail();
    return SNAPSHOT;
  }

  async permit(attempt: AttemptKey, from: AuthenticatedWorker) {
    this.#fail();
    if (this.permits.some((given) => given.from.asking.nonce === from.asking.nonce)) throw signatureErrors.repeated();
    this.permits.push({ attempt, from });
    return this.permitted;
  }

  async report(attempt: AttemptKey, report: Report, from: AuthenticatedWorker) {
    this.#fail();
    this.reports.push({ attempt, report, from });
  }

  async open(job: ForwardedJob, from: AuthenticatedWorker) {
    this.#fail();
    this.opened.push({ job, from });
  }

  #fail(): void {
    if (this.problem) throw this.problem;
  }
}

async function* printing() {
  yield Buffer.from('one\n');
  yield Buffer.from('two\n');
}
