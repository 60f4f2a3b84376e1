import { isObject } from '../../base/fields.ts';
import { serviceName } from '../../service/fields.ts';
import { authorization } from './authorization.ts';
import { DEADLINES, type Deadlines } from './http-peer.ts';
import {
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
} from './peer.ts';
import { noManager, problemOf } from './problems.ts';
import type { PeerAnswer, PeerRequest, Transport } from './transport.ts';
import { type UpstreamWorker, upstreamBody, upstreamWorker } from './upstream-worker.ts';

/** What is found under a name: a worker of ours, something else, or nothing. */
type Found = 'nothing' | 'hidden' | { readonly worker: UpstreamWorker | undefined };

/**
 * A manager written in Go (contract §6.3–§6.9). It knows no keys: whoever stands for one is asked as. It keeps no marks for
 * what was undone, so that a create which arrives after its undo makes a service. Nothing is changed or deleted there unless
 * its annotations say that it is ours.
 */
export class UpstreamPeer implements Peer {
  readonly #address: PeerAddress;
  readonly #transport: Transport;
  readonly #deadlines: Deadlines;

  constructor(address: PeerAddress, transport: Transport, deadlines: Deadlines = DEADLINES) {
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

  async create(order: WorkerOrder, as: Credential): Promise<void> {
    const { name } = order;
    const request = { method: 'POST', path: '/system/services', body: upstreamBody(order) } as const;
    const { status } = await this.#send(request, as, this.#deadlines.make);
    if (status === 201) return;
    // It says 400 for a name that is taken and for much else (contract §1.5).
    if (status !== 400 && status !== 409) throw problemOf(status, name, this.#address);
    const found = await this.#find(name, as);
    if (found === 'nothing') throw this.#problem('failed', `did not take the definition of "${name}"`);
    if (!isOf(found, order.uid)) throw problemOf(409, name, this.#address);
  }

  async adopt({ name }: WorkerOrder): Promise<void> {
    throw problemOf(409, name, this.#address);
  }

  /** It has no keys. */
  async rekey(order: WorkerOrder, as: Credential): Promise<boolean> {
    return isOf(await this.#find(order.name, as), order.uid);
  }

  async inspect(name: string, as: MemberKey): Promise<WorkerState | undefined> {
    const found = await this.#find(name, await this.#credential(as));
    if (!isOf(found, as.uid)) return undefined;
    const { revision, digest } = found.worker;
    return { instance: this.#instance, revision, digest };
  }

  async update(order: WorkerOrder, as: MemberKey): Promise<void> {
    const { name, revision } = order;
    const credential = await this.#credential(as);
    const found = await this.#find(name, credential);
    if (!isOf(found, as.uid)) throw this.#problem('failed', `has no worker "${name}" of this federation`);
    if (found.worker.revision > revision) throw problemOf(412, name, this.#address);
    const request = { method: 'PUT', path: '/system/services', body: upstreamBody(order) } as const;
    const { status } = await this.#send(request, credential, this.#deadlines.make);
    // 200 with a text when members of its own could not be told (contract §1.7).
    if (status !== 200 && status !== 204) throw problemOf(status, name, this.#address);
  }

  /** A worker that is let go stays as it is: a definition read there has no secrets, and written back it would lose them. */
  async remove(name: string, how: 'undo' | 'detach', as: MemberKey): Promise<Removed> {
    if (how === 'detach') return 'ended';
    const credential = await this.#credential(as);
    const found = await this.#find(name, credential);
    if (!isOf(found, as.uid)) return 'ended';
    const { status } = await this.#send({ method: 'DELETE', path: pathOf(name) }, credential, this.#deadlines.end);
    if (status === 204) return 'ended';
    if (status !== 404) throw problemOf(status, name, this.#address);
    // Who sees a service that is not theirs is told so, too (contract §1.8).
    if (isOf(await this.#find(name, credential), as.uid)) throw problemOf(403, name, this.#address);
    return 'ended';
  }

  /** It has no id of its own that it tells; two ids of one cluster have at least one address. */
  get #instance(): string {
    return `upstream:${this.#address.endpoint}`;
  }

  async #find(name: string, as: Credential): Promise<Found> {
    if (serviceName.read(name) === undefined)
      throw this.#problem('failed', `was not asked: "${name}" is no name of a service`);
    const answer = await this.#send({ method: 'GET', path: pathOf(name) }, as, this.#deadlines.look);
    const { status, json, isEmpty } = answer;
    if (status === 404 && isEmpty) return 'nothing';
    // Credentials that it does not know are 401; this is a service of somebody else (contract §1.6, F17).
    if (status === 403) return 'hidden';
    if (status !== 200) throw problemOf(status, name, this.#address);
    if (!isObject(json) || json['name'] !== name) throw noManager(this.#address);
    return { worker: upstreamWorker(json) };
  }

  #send(request: Pick<PeerRequest, 'method' | 'path' | 'body'>, as: Credential, deadline: number): Promise<PeerAnswer> {
    const headers = authorization(as, this.#address.clusterId);
    return this.#transport.send({ ...request, headers, deadline, repeatable: request.method !== 'POST' });
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

const pathOf = (name: string) => `/system/services/${name}`;

function isOf(found: Found, uid: string): found is { readonly worker: UpstreamWorker } {
  return typeof found === 'object' && found.worker?.uid === uid;
}
