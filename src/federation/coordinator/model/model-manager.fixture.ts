import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import {
  type Credential,
  type MemberKey,
  memberKeyId,
  type Peer,
  PeerError,
  type Probe,
  type Removed,
  type WorkerOrder,
} from '../../../peers/index.ts';
import { newVersion, type Passage } from './model-cluster.fixture.ts';

/** The parts of a service on another cluster that a federation uses. */
interface RemoteService {
  readonly owner: string;
  readonly token: string;
  readonly version: string;
  readonly body: string;
  readonly worker?: {
    readonly uid: string;
    readonly revision: number;
    readonly digest: string;
    readonly keyId: string;
  };
  readonly before?: RemoteService;
}

/** Another manager: a minimal implementation of the port. */
export class ModelManager {
  readonly services = new Map<string, RemoteService>();
  readonly tombstones = new Set<string>();
  /** The previous key by its successor, while the previous key is valid. */
  readonly formerKeys = new Map<string, string>();
  /** The previous key by its successor, also when it is no longer valid. */
  readonly #replacedKeys = new Map<string, string>();
  readonly instance = randomUUID();
  /** The credentials that it accepts. */
  accepts: (as: Credential) => boolean = () => true;

  /** The services of users, for comparison. Versions are left out, because any change makes a new one. */
  snapshot(): unknown {
    return [...this.services]
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, { version: _, ...service }]) => ({ name, ...service }));
  }

  probe(name: string, as: Credential): Probe {
    this.#admit(as);
    const { instance } = this;
    const service = this.services.get(name);
    if (!service) return { instance, found: 'nothing' };
    if (service.owner !== 'alice') return { instance, found: 'taken' };
    const { worker, version } = service;
    return worker
      ? { instance, found: 'member', uid: worker.uid, revision: worker.revision }
      : { instance, found: 'own', version };
  }

  create(order: WorkerOrder, as: Credential): void {
    this.#admit(as);
    const keyId = memberKeyId(order.key);
    if (this.tombstones.has(keyId)) throw new PeerError('gone', 'it was undone');
    const current = this.services.get(order.name);
    if (current?.worker?.keyId === keyId) return;
    if (current) throw new PeerError('taken', 'the name is taken');
    this.services.set(order.name, { owner: 'alice', token: randomUUID(), ...workerOf(order) });
  }

  adopt(order: WorkerOrder, version: string, as: Credential): void {
    this.#admit(as);
    const keyId = memberKeyId(order.key);
    if (this.tombstones.has(keyId)) throw new PeerError('gone', 'it was undone');
    const current = this.services.get(order.name);
    if (current?.worker?.keyId === keyId) return;
    if (current?.worker || (current && current.owner !== 'alice')) throw new PeerError('taken', 'the name is taken');
    if (current?.version !== version) throw new PeerError('stale', 'it has changed');
    this.services.set(order.name, { owner: current.owner, token: current.token, before: current, ...workerOf(order) });
  }

  rekey(order: WorkerOrder, as: Credential): boolean {
    this.#admit(as);
    const keyId = memberKeyId(order.key);
    if (this.tombstones.has(keyId)) throw new PeerError('gone', 'it was ended');
    const current = this.services.get(order.name);
    if (current?.worker?.uid !== order.uid) return false;
    const { keyId: former, revision } = current.worker;
    const isReplaced = order.revision === revision && this.#replacedKeys.get(former) === keyId;
    if (order.revision < revision || isReplaced) throw new PeerError('stale', 'it has a later revision or key');
    if (former !== keyId) {
      this.formerKeys.set(keyId, former);
      this.#replacedKeys.set(keyId, former);
    }
    this.services.set(order.name, { ...current, ...workerOf(order) });
    return true;
  }

  /** The current key of the worker, given that key or the previous one. Using the new key revokes the old one. */
  #keyIdOf(name: string, { key, uid }: MemberKey): string {
    const keyId = memberKeyId(key);
    const worker = this.services.get(name)?.worker;
    if (worker?.uid !== uid) return keyId;
    if (worker.keyId === keyId) this.formerKeys.delete(keyId);
    else if (this.formerKeys.get(worker.keyId) === keyId) return worker.keyId;
    return keyId;
  }

  inspect(name: string, as: MemberKey) {
    const keyId = this.#keyIdOf(name, as);
    if (this.tombstones.has(keyId)) throw new PeerError('gone', 'it was ended');
    const worker = this.services.get(name)?.worker;
    if (worker?.uid === as.uid && worker.keyId !== keyId) throw new PeerError('refused', 'the key is another');
    if (worker?.keyId !== keyId) return undefined;
    return { revision: worker.revision, digest: worker.digest, instance: this.instance };
  }

  update(order: WorkerOrder): void {
    const state = this.inspect(order.name, order);
    const current = this.services.get(order.name);
    if (!state || !current) throw new PeerError('refused', 'the key is not known');
    if (state.revision > order.revision) throw new PeerError('stale', 'it has a later revision');
    assert.ok(state.revision < order.revision || state.digest === order.digest, 'a revision has one definition');
    const changed = workerOf(order);
    const keyId = this.#keyIdOf(order.name, order);
    this.services.set(order.name, { ...current, ...changed, worker: { ...changed.worker, keyId } });
  }

  remove(name: string, how: 'undo' | 'detach', as: MemberKey): Removed {
    const keyId = this.#keyIdOf(name, as);
    const current = this.services.get(name);
    if (current?.worker?.keyId === keyId) {
      const { worker: _, before, ...plain } = current;
      if (how === 'detach') this.services.set(name, { ...plain, version: newVersion() });
      else if (before) this.services.set(name, { ...before, version: newVersion() });
      else this.services.delete(name);
    }
    this.tombstones.add(keyId).add(memberKeyId(as.key));
    return this.services.get(name)?.worker?.uid === as.uid ? 'held' : 'ended';
  }

  #admit(as: Credential): void {
    if (!this.accepts(as)) throw new PeerError('refused', 'it does not know you');
  }
}

function workerOf({ uid, revision, digest, key, body }: WorkerOrder) {
  const worker = { uid, revision, digest, keyId: memberKeyId(key) };
  return { version: newVersion(), body: body.reveal(), worker };
}

/** A service of a user on another cluster. */
export const remoteService = (owner: string): RemoteService => ({
  owner,
  token: `token-of-${owner}`,
  version: newVersion(),
  body: `what ${owner} made`,
});

export function modelPeer(manager: ModelManager | undefined, clusterId: string, passage: Passage): Peer {
  const ask = async <T>(call: string, effect: (manager: ModelManager) => T): Promise<T> =>
    passage.request(clusterId, call, () => {
      if (!manager) throw new PeerError('unreachable', 'nobody answers there');
      return effect(manager);
    });
  return {
    probe: (name, as) => ask('probe', (there) => there.probe(name, as)),
    create: (order, as) => ask('create', (there) => there.create(order, as)),
    adopt: (order, version, as) => ask('adopt', (there) => there.adopt(order, version, as)),
    rekey: (order, as) => ask('rekey', (there) => there.rekey(order, as)),
    inspect: (name, as) => ask('inspect', (there) => there.inspect(name, as)),
    update: (order) => ask('update', (there) => there.update(order)),
    remove: (name, how, as) => ask('remove', (there) => there.remove(name, how, as)),
  };
}
