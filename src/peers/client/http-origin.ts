import { serviceNameField } from '../../model/service/index.ts';
import type { PeerConnection } from '../connection/peer-connection.ts';
import { noManager, peerProblem } from '../connection/problems.ts';
import { type PeerAnswer, validField } from '../connection/transport.ts';
import type { AttemptKey, ForwardedJob, Origin, Permit, Report } from '../delegation-ports.ts';
import { DelegationError, type DelegationErrorCode, FederationError } from '../errors.ts';
import { jobId, readCode, writeAttempt, writeOpened } from '../messages/offer.ts';
import { readPermit } from '../messages/permit.ts';
import { writeReport } from '../messages/report.ts';
import type { MemberKey, PeerAddress } from '../peer.ts';

/** Milliseconds for each kind of call. */
export interface OriginDeadlines {
  /** The origin waits 10 s for our answer to its offer, so a permit must arrive in half of that. */
  readonly permit: number;
  /** Reports are retried with a backoff, so a larger value only holds a connection. */
  readonly report: number;
  /** A client waits for the answer of `/job`. */
  readonly open: number;
}

export const ORIGIN_DEADLINES: OriginDeadlines = { permit: 5_000, report: 5_000, open: 5_000 };

/** Another manager as the origin of jobs, over HTTP (docs/peer-protocol.md). */
export class HttpOrigin implements Origin {
  readonly #address: PeerAddress;
  readonly #connection: PeerConnection;
  readonly #deadlines: OriginDeadlines;

  constructor(address: PeerAddress, connection: PeerConnection, deadlines: OriginDeadlines = ORIGIN_DEADLINES) {
    this.#address = address;
    this.#connection = connection;
    this.#deadlines = deadlines;
  }

  async permit(attempt: AttemptKey, as: MemberKey): Promise<Permit> {
    const { service } = this.#legal(attempt.job);
    const request = { method: 'GET', path: '/system/config', query: writeAttempt(attempt), headers: {} } as const;
    const answer = await this.#connection.sendSigned({ ...request, deadline: this.#deadlines.permit }, as);
    if (answer.status !== 200) throw this.#problem(answer, service);
    const read = readPermit(answer.json);
    if ('problems' in read) throw noManager(this.#address);
    return read.value;
  }

  async report({ job, epoch }: AttemptKey, report: Report, as: MemberKey): Promise<void> {
    const { service, id } = this.#legal(job);
    const path = `/system/federation/${service}/jobs/${id}/attempts/${epoch}`;
    const request = { method: 'POST', path, headers: {}, body: writeReport(report) } as const;
    const answer = await this.#connection.sendSigned({ ...request, deadline: this.#deadlines.report }, as);
    if (answer.status !== 204) throw this.#problem(answer, service);
  }

  async open(entered: ForwardedJob, as: MemberKey): Promise<void> {
    const { service } = this.#legal(entered.job);
    const path = `/system/federation/${service}/jobs`;
    const request = { method: 'POST', path, headers: {}, body: writeOpened(entered) } as const;
    const answer = await this.#connection.sendSigned({ ...request, deadline: this.#deadlines.open }, as);
    if (answer.status !== 201) throw this.#problem(answer, service);
  }

  #legal({ service, id }: ForwardedJob['job']): ForwardedJob['job'] {
    return { service: validField(serviceNameField, service, this.#address), id: validField(jobId, id, this.#address) };
  }

  #problem(answer: PeerAnswer, service: string): Error {
    const { clusterId } = this.#address;
    const read = readCode(answer.json);
    const code = delegationCode('value' in read ? read.value.code : undefined, answer.status);
    if (code) return new DelegationError(code, `cluster "${clusterId}" ${REASONS[code]}`);
    if (answer.status === 410) {
      return new FederationError('federation-gone', `cluster "${clusterId}" has ended the federation of "${service}"`);
    }
    return peerProblem(answer.status, service, this.#address);
  }
}

/** Continues `cluster "x" …`. Written by us (F40). */
const REASONS = {
  fenced: 'has another attempt of this job by now, or it has ended',
  'job-gone': 'has no such job any more',
  'payload-differs': 'has another job under this id',
  'offer-not-allowed': 'does not let this member do it',
} satisfies Partial<Record<DelegationErrorCode, string>>;

type ToldCode = keyof typeof REASONS;

/** `job-gone` ends a run, so it needs the code of a manager: the 404 of any server is not enough. */
function delegationCode(said: string | undefined, status: number): ToldCode | undefined {
  if (said !== undefined && Object.hasOwn(REASONS, said)) return said as ToldCode;
  return status === 409 ? 'fenced' : undefined;
}
