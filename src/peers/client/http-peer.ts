import type { Read } from '../../lib/fields.ts';
import { serviceNameField } from '../../model/service/index.ts';
import type { PeerConnection } from '../connection/peer-connection.ts';
import { noManager, peerProblem } from '../connection/problems.ts';
import type { PeerAnswer } from '../connection/transport.ts';
import {
  ANOTHER_KEY,
  FEDERATION_HEADER,
  readProbe,
  readState,
  writeChange,
  writeKey,
  writeOrder,
} from '../messages/federation.ts';
import {
  authorization,
  type Credential,
  type MemberKey,
  type Peer,
  type PeerAddress,
  PeerError,
  type Probe,
  type Removed,
  type WorkerOrder,
  type WorkerState,
} from '../peer.ts';

/** Milliseconds for each kind of call. */
export interface Deadlines {
  /** Probe, inspect. */
  readonly look: number;
  /** Create, adopt, give another key, update. */
  readonly make: number;
  /** Remove. */
  readonly end: number;
}

/**
 * A create with its probe and its undo must end before the 20 s timeout of oscar-cli: 3 + 8 + 3, and the work of this
 * cluster. Smaller values fail for busy members.
 */
const DEADLINES: Deadlines = { look: 3_000, make: 8_000, end: 3_000 };

/** Another manager, over HTTP (docs/peer-protocol.md). */
export class HttpPeer implements Peer {
  readonly #address: PeerAddress;
  readonly #connection: PeerConnection;
  readonly #deadlines: Deadlines;

  constructor(address: PeerAddress, connection: PeerConnection, deadlines: Deadlines = DEADLINES) {
    this.#address = address;
    this.#connection = connection;
    this.#deadlines = deadlines;
  }

  async probe(name: string, as: Credential, keyId?: string): Promise<Probe> {
    const headers = authorization(as, this.#address.clusterId);
    const request = {
      method: 'GET',
      path: this.#federationPath(name),
      ...(keyId !== undefined && { query: `key=${keyId}` }),
      headers,
      deadline: this.#deadlines.look,
    } as const;
    const answer = await this.#connection.send({ ...request, repeatable: true });
    if (answer.status !== 200) throw peerProblem(answer.status, name, this.#address);
    return this.#requireValid(readProbe(answer.json));
  }

  async create(order: WorkerOrder, as: Credential): Promise<void> {
    const { status } = await this.#sendOrder('POST', order, {}, as);
    // A probe does not say that the name belongs to another user.
    if (status === 409) {
      const why = 'another service there has this name: choose another';
      throw new PeerError('taken', `cluster "${this.#address.clusterId}": ${why}`);
    }
    if (status !== 201) throw peerProblem(status, order.name, this.#address);
  }

  async adopt(order: WorkerOrder, version: string, as: Credential): Promise<void> {
    const { status } = await this.#sendOrder('PUT', order, { 'if-match': `"${version}"` }, as);
    if (status !== 204) throw peerProblem(status, order.name, this.#address);
  }

  async rekey(order: WorkerOrder, as: Credential): Promise<boolean> {
    const answer = await this.#sendOrder('PUT', order, { 'if-match': '*' }, as);
    if (isNotFound(answer)) return false;
    if (answer.status !== 204) throw peerProblem(answer.status, order.name, this.#address);
    return true;
  }

  async inspect(name: string, as: MemberKey): Promise<WorkerState | undefined> {
    const request = { method: 'GET', path: this.#federationPath(name), headers: {} } as const;
    const answer = await this.#connection.sendSigned({ ...request, deadline: this.#deadlines.look }, as);
    if (isNotFound(answer)) return undefined;
    if (answer.status !== 200) throw peerProblem(answer.status, name, this.#address);
    return this.#requireValid(readState(answer.json));
  }

  async update(order: WorkerOrder, as: MemberKey): Promise<void> {
    const { name } = order;
    const request = { method: 'PUT', path: this.#federationPath(name), headers: {}, body: writeChange(order) } as const;
    const answer = await this.#connection.sendSigned({ ...request, deadline: this.#deadlines.make }, as);
    if (answer.status === 204) return;
    // The member key proves that the name belongs to the worker, so the conflict is about the revision.
    if (answer.status === 409) throw peerProblem(412, name, this.#address);
    if (isNotFound(answer)) throw this.#problem('failed', `has no worker "${name}" of this federation`);
    throw peerProblem(answer.status, name, this.#address);
  }

  async remove(name: string, how: 'undo' | 'detach', as: MemberKey): Promise<Removed> {
    const headers = { [FEDERATION_HEADER]: writeKey(as) };
    const request = { method: 'DELETE', path: this.#federationPath(name), query: `how=${how}`, headers } as const;
    const { status, worker } = await this.#connection.sendSigned({ ...request, deadline: this.#deadlines.end }, as);
    // 410: the worker ended before.
    if (status !== 204 && status !== 410) throw peerProblem(status, name, this.#address);
    return worker === ANOTHER_KEY ? 'held' : 'ended';
  }

  #sendOrder(
    method: 'POST' | 'PUT',
    order: WorkerOrder,
    more: Record<string, string>,
    as: Credential,
  ): Promise<PeerAnswer> {
    const own = authorization(as, this.#address.clusterId);
    const headers = { ...own, ...more, [FEDERATION_HEADER]: writeOrder(order) };
    const body = order.body.reveal();
    const request = { method, path: '/system/services', headers, body, deadline: this.#deadlines.make } as const;
    return this.#connection.send({ ...request, repeatable: true });
  }

  #requireValid<T>(read: Read<T>): T {
    if ('value' in read) return read.value;
    throw noManager(this.#address);
  }

  #federationPath(name: string): string {
    if (serviceNameField.read(name) === undefined)
      throw this.#problem('failed', `was not asked: "${name}" is no name of a service`);
    return `/system/services/${name}/federation`;
  }

  #problem(code: 'failed', why: string): PeerError {
    return new PeerError(code, `cluster "${this.#address.clusterId}" ${why}`);
  }
}

/** The 404 of a manager is empty or JSON; other servers send a page. */
const isNotFound = ({ status, isEmpty, json }: PeerAnswer) => status === 404 && (isEmpty || json !== undefined);
