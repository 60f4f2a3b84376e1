import { setTimeout as pause } from 'node:timers/promises';
import { KeyedMutex } from '../../lib/concurrency.ts';
import { isObject } from '../../lib/fields.ts';
import { serviceNameField } from '../../model/service/index.ts';
import type { Deadlines } from '../client/http-peer.ts';
import { noManager, peerProblem } from '../connection/problems.ts';
import type { PeerAnswer, PeerRequest, Transport } from '../connection/transport.ts';
import {
  authorization,
  type Credential,
  type MemberKey,
  type Peer,
  type PeerAddress,
  PeerError,
  type PeerErrorCode,
  type Probe,
  type Removed,
  type WorkerOrder,
  type WorkerState,
} from '../peer.ts';
import { credentialSecrets, orderSecrets, upstreamProblem } from './upstream-answer.ts';
import { emptiedBody, type UpstreamWorker, upstreamBody, upstreamWorker } from './upstream-worker.ts';

/** Milliseconds. */
export interface UpstreamDeadlines extends Deadlines {
  /** Until what was made is seen, or what was deleted is not. */
  readonly settle: number;
  /** Pause between two reads while waiting. */
  readonly again: number;
}

/**
 * A Go manager restarts its MinIO for each service that it creates or deletes, and waits 6 s for it: 8 to 12 s in all.
 * With a shorter deadline the service appears after the request was given up, and no ledger knows it. With a longer one
 * oscar-cli gives up first, after 20 s.
 */
const DEADLINES: UpstreamDeadlines = { look: 10_000, make: 16_000, end: 16_000, settle: 10_000, again: 500 };

/** What is found under a name: a worker of ours, something else, or nothing. */
type Found = 'nothing' | 'hidden' | { readonly document: Document; readonly worker: UpstreamWorker | undefined };

type Document = Record<string, unknown>;

/** A worker of the federation that asks. */
interface OwnWorker {
  readonly document: Document;
  readonly worker: UpstreamWorker;
}

/**
 * A manager written in Go (docs/peer-protocol.md#managers-written-in-go). It has no member keys, so requests use the
 * credentials of the user whom a key stands for. It has no tombstones, so a create that arrives after its undo creates a
 * service. Only services whose annotations name this federation are changed or deleted.
 */
export class UpstreamPeer implements Peer {
  readonly #address: PeerAddress;
  readonly #transport: Transport;
  readonly #deadlines: UpstreamDeadlines;
  /** One change of a service at a time. */
  readonly #mutex = new KeyedMutex();

  constructor(address: PeerAddress, transport: Transport, deadlines: UpstreamDeadlines = DEADLINES) {
    this.#address = address;
    this.#transport = transport;
    this.#deadlines = deadlines;
  }

  /** Whatever else has the name has it: nothing there can be adopted, since it could not be given back. */
  async probe(name: string, as: Credential): Promise<Probe> {
    const found = await this.#find(name, as);
    const instance = this.#instance;
    if (found === 'nothing') return { instance, found };
    if (found === 'hidden' || !found.worker) return { instance, found: 'taken' };
    const { uid, revision } = found.worker;
    return { instance, found: 'member', uid, revision };
  }

  /** It is made when it is seen there: that manager answers before others of its cluster know of the service. */
  create(order: WorkerOrder, as: Credential): Promise<void> {
    return this.#mutex.run(order.name, async () => {
      const { name, uid } = order;
      const request = { method: 'POST', path: '/system/services', body: upstreamBody(order) } as const;
      const answer = await this.#send(request, as, this.#deadlines.make);
      const { status } = answer;
      if (status === 201) return this.#waitUntilVisible(order, as);
      const problem = this.#toError(answer, name, [...credentialSecrets(as), ...orderSecrets(order)]);
      // It says 400 for a name that is taken and for much else (docs/go-manager.md#services).
      if (status !== 400 && status !== 409) throw problem;
      const found = await this.#find(name, as);
      if (found === 'nothing') throw new PeerError('failed', problem.message);
      if (!belongsTo(found, uid)) throw peerProblem(409, name, this.#address);
    });
  }

  async adopt({ name }: WorkerOrder): Promise<void> {
    throw peerProblem(409, name, this.#address);
  }

  /** It has no keys. */
  async rekey(order: WorkerOrder, as: Credential): Promise<boolean> {
    return belongsTo(await this.#find(order.name, as), order.uid);
  }

  async inspect(name: string, as: MemberKey): Promise<WorkerState | undefined> {
    const found = await this.#find(name, await this.#credential(as));
    if (!belongsTo(found, as.uid)) return undefined;
    const { revision, digest } = found.worker;
    return { instance: this.#instance, revision, digest };
  }

  async update(order: WorkerOrder, as: MemberKey): Promise<void> {
    const { name, revision } = order;
    const credential = await this.#credential(as);
    return this.#mutex.run(name, async () => {
      const found = await this.#find(name, credential);
      if (!belongsTo(found, as.uid)) throw this.#problem('failed', `has no worker "${name}" of this federation`);
      if (found.worker.revision > revision) throw peerProblem(412, name, this.#address);
      const answer = await this.#put(upstreamBody(order), credential);
      if (isDone(answer)) return;
      throw this.#toError(answer, name, [...credentialSecrets(credential), ...orderSecrets(order)]);
    });
  }

  /** A worker that is let go stays as it is: a definition read there has no secrets, and written back it would lose them. */
  async remove(name: string, how: 'undo' | 'detach', as: MemberKey): Promise<Removed> {
    if (how === 'detach') return 'ended';
    const credential = await this.#credential(as);
    return this.#mutex.run<Removed>(name, async () => {
      const found = await this.#find(name, credential);
      if (belongsTo(found, as.uid)) await this.#delete(name, found, as.uid, credential);
      return 'ended';
    });
  }

  /** Until it is seen to be gone: a service that is made while the one before is being deleted breaks there. */
  async #delete(name: string, { document }: OwnWorker, uid: string, as: Credential): Promise<void> {
    await this.#empty(name, document, uid, as);
    const answer = await this.#send({ method: 'DELETE', path: servicePath(name) }, as, this.#deadlines.end);
    const { status } = answer;
    // It may have been deleted whatever is said of its buckets, and is asked for once.
    const isGone = (found: Found) => !belongsTo(found, uid);
    const found = status === 204 ? await this.#poll(name, as, isGone) : await this.#find(name, as);
    if (isGone(found)) return;
    if (status === 204) throw this.#problem('failed', `is still deleting "${name}": it is looked at again in a while`);
    // Who sees a service that is not theirs is told that there is none (docs/go-manager.md#http).
    throw status === 404 ? peerProblem(403, name, this.#address) : this.#toError(answer, name, credentialSecrets(as));
  }

  /** It may have been written whatever is answered (R31). */
  async #empty(name: string, document: Document, uid: string, as: Credential): Promise<void> {
    const body = emptiedBody(document);
    if (body === undefined) return;
    const answer = await this.#put(body, as);
    if (isDone(answer)) return;
    const found = await this.#find(name, as);
    if (!belongsTo(found, uid) || emptiedBody(found.document) === undefined) return;
    throw this.#toError(answer, name, credentialSecrets(as));
  }

  async #waitUntilVisible({ name, uid, revision }: WorkerOrder, as: Credential): Promise<void> {
    const isSeen = (found: Found) => belongsTo(found, uid) && found.worker.revision >= revision;
    const isOther = (found: Found) => found !== 'nothing' && !belongsTo(found, uid);
    const found = await this.#poll(name, as, (each) => isSeen(each) || isOther(each));
    if (isSeen(found)) return;
    if (isOther(found)) throw peerProblem(409, name, this.#address);
    throw this.#problem('failed', `answered 201 for "${name}", but does not show it: it is looked at again in a while`);
  }

  /** What is found in the end: when it is so, or when that has taken long enough. */
  async #poll(name: string, as: Credential, isSo: (found: Found) => boolean): Promise<Found> {
    const { settle, again } = this.#deadlines;
    const end = performance.now() + settle;
    for (;;) {
      const found = await this.#find(name, as);
      if (isSo(found) || performance.now() >= end) return found;
      await pause(again);
    }
  }

  /** It has no id of its own that it tells; two ids of one cluster have at least one address. */
  get #instance(): string {
    return `upstream:${this.#address.endpoint}`;
  }

  async #find(name: string, as: Credential): Promise<Found> {
    if (serviceNameField.read(name) === undefined)
      throw this.#problem('failed', `was not asked: "${name}" is no name of a service`);
    const answer = await this.#send({ method: 'GET', path: servicePath(name) }, as, this.#deadlines.look);
    const { status, json, isEmpty } = answer;
    if (status === 404 && isEmpty) return 'nothing';
    // Unknown credentials are 401, so 403 means that the service has another owner (F17).
    if (status === 403) return 'hidden';
    if (status !== 200) throw this.#toError(answer, name, credentialSecrets(as));
    if (!isObject(json) || json['name'] !== name) throw noManager(this.#address);
    return { document: json, worker: upstreamWorker(json) };
  }

  #put(body: string, as: Credential): Promise<PeerAnswer> {
    return this.#send({ method: 'PUT', path: '/system/services', body }, as, this.#deadlines.make);
  }

  #send(request: Pick<PeerRequest, 'method' | 'path' | 'body'>, as: Credential, deadline: number): Promise<PeerAnswer> {
    const headers = authorization(as, this.#address.clusterId);
    return this.#transport.send({ ...request, headers, deadline, repeatable: request.method !== 'POST' });
  }

  #toError(answer: PeerAnswer, name: string, sent: readonly string[]): PeerError {
    return upstreamProblem(answer, name, this.#address, sent);
  }

  async #credential({ owner }: MemberKey): Promise<Credential> {
    const runs = 'is run by a manager written in Go, which knows no member keys';
    if (!owner) throw this.#problem('refused', `${runs}: PUT the service once`);
    try {
      return await owner();
    } catch (error) {
      if (!(error instanceof PeerError) || error.code !== 'refused') throw error;
      throw this.#problem('refused', `${runs}; ${error.message}`);
    }
  }

  #problem(code: PeerErrorCode, why: string): PeerError {
    return new PeerError(code, `cluster "${this.#address.clusterId}" ${why}`);
  }
}

const servicePath = (name: string) => `/system/services/${name}`;

/** An update is 200 with a text when members of its own could not be told. */
const isDone = ({ status }: PeerAnswer) => status === 200 || status === 204;

function belongsTo(found: Found, uid: string): found is OwnWorker {
  return typeof found === 'object' && found.worker?.uid === uid;
}
