import assert from 'node:assert/strict';
import { hash, randomBytes, randomUUID } from 'node:crypto';
import { describe, type TestContext, test } from 'node:test';
import { Secret } from '../lib/secret.ts';
import type { Credential, MemberKey, Peer, Probe, WorkerOrder } from './peer.ts';

export interface PeerUnderTest {
  readonly peer: Peer;
  /** Two who may make services there, and one who is not known. */
  readonly owner: Credential;
  readonly stranger: Credential;
  readonly nobody: Credential;
  /** A definition as `POST /system/services` takes it; another text makes it another one. */
  readonly body: (name: string, text: string) => string;
  /** Makes a service of the owner's, as they would themselves. */
  readonly make: (name: string) => Promise<void>;
  /** Changes it, as they would themselves. */
  readonly change: (name: string) => Promise<void>;
  /** All that its owner can see of a service, for comparing; undefined when there is none. */
  readonly look: (name: string) => Promise<unknown>;
  readonly close: () => void | Promise<void>;
}

/** What every {@link Peer} with member keys promises to a coordinator. */
export function describePeer(name: string, make: () => Promise<PeerUnderTest>): void {
  const start = async (t: TestContext): Promise<Scene> => {
    const made = await make();
    t.after(() => made.close());
    return { ...made, order: (changes = {}) => orderOf(made, changes) };
  };

  describe(`${name} as a Peer`, () => {
    describeMaking(start);
    describeAdopting(start);
    describeChanging(start);
    describeRekeying(start);
    describeEnding(start);
  });
}

interface Scene extends PeerUnderTest {
  /** A new order of a new federation, unless it is said otherwise. */
  readonly order: (changes?: Partial<WorkerOrder> & { text?: string }) => WorkerOrder;
}

type Start = (t: TestContext) => Promise<Scene>;

const NAME = 'cow';

function orderOf(
  made: PeerUnderTest,
  { text = 'moo', ...changes }: Partial<WorkerOrder> & { text?: string },
): WorkerOrder {
  const body = made.body(changes.name ?? NAME, text);
  return {
    name: NAME,
    uid: randomUUID(),
    revision: 1,
    member: `oscar-cluster-b/${NAME}`,
    key: new Secret(randomBytes(32).toString('hex')),
    origin: { clusterId: 'oscar-cluster', service: NAME, endpoint: 'https://a.example', store: 'https://s.a.example' },
    body: new Secret(body),
    digest: hash('sha256', body, 'hex'),
    ...changes,
  };
}

const keyOf = ({ uid, member, key }: WorkerOrder): MemberKey => ({ uid, member, key });
const code = (expected: string) => ({ name: 'PeerError', code: expected });

function describeMaking(start: Start): void {
  test('where there is nothing, a probe says so, and names the manager always alike', async (t) => {
    const { peer, owner, stranger } = await start(t);
    const { instance, found } = await peer.probe(NAME, owner);
    assert.equal(found, 'nothing');
    assert.equal((await peer.probe('goat', stranger)).instance, instance);
  });

  test('what was made is found: by its owner as a member, with the key as what was ordered', async (t) => {
    const { peer, owner, order } = await start(t);
    const made = order({ revision: 3 });
    const { instance } = await peer.probe(NAME, owner);
    await peer.create(made, owner);
    assert.deepEqual(await peer.probe(NAME, owner), { instance, found: 'member', uid: made.uid, revision: 3 });
    assert.deepEqual(await peer.inspect(NAME, keyOf(made)), { instance, revision: 3, digest: made.digest });
  });

  test('a create that comes again, or many times at once, makes one worker', async (t) => {
    const { peer, owner, order, look } = await start(t);
    const made = order();
    await Promise.all(Array.from({ length: 5 }, () => peer.create(made, owner)));
    const before = await look(NAME);
    await peer.create(made, owner);
    assert.deepEqual(await look(NAME), before);
  });

  test('peer: an unknown caller is rejected, and nothing is created', async (t) => {
    const { peer, owner, nobody, order } = await start(t);
    await assert.rejects(peer.probe(NAME, nobody), code('refused'));
    await assert.rejects(peer.create(order(), nobody), code('refused'));
    assert.equal((await peer.probe(NAME, owner)).found, 'nothing');
  });

  test('peer: a name of another user is taken, and the service there stays unchanged', async (t) => {
    const { peer, owner, stranger, order, make, look } = await start(t);
    await make(NAME);
    const before = await look(NAME);
    assertNotDisclosed(await peer.probe(NAME, stranger));
    await assert.rejects(peer.create(order(), stranger), code('taken'));
    await assert.rejects(peer.create(order(), owner), code('taken'));
    assert.deepEqual(await look(NAME), before);
  });

  test('a worker of one federation is taken for every other', async (t) => {
    const { peer, owner, stranger, order, look } = await start(t);
    await peer.create(order(), owner);
    const before = await look(NAME);
    await assert.rejects(peer.create(order(), owner), code('taken'));
    assertNotDisclosed(await peer.probe(NAME, stranger));
    assert.deepEqual(await look(NAME), before);
  });

  test('nothing is found of a federation that has nothing there', async (t) => {
    const { peer, order } = await start(t);
    assert.equal(await peer.inspect(NAME, keyOf(order())), undefined);
  });
}

function describeAdopting(start: Start): void {
  const own = async ({ peer, owner, make }: Scene) => {
    await make(NAME);
    const probe = await peer.probe(NAME, owner);
    assert.equal(probe.found, 'own');
    return probe.found === 'own' ? probe.version : '';
  };

  test('a service of the owner becomes a worker, and after an undo it is what it was', async (t) => {
    const scene = await start(t);
    const { peer, owner, order, look } = scene;
    const version = await own(scene);
    const before = await look(NAME);
    const made = order();
    await peer.adopt(made, version, owner);
    assert.equal((await peer.inspect(NAME, keyOf(made)))?.digest, made.digest);
    assert.notDeepEqual(await look(NAME), before);
    await peer.remove(NAME, 'undo', keyOf(made));
    assert.equal((await peer.probe(NAME, owner)).found, 'own');
    assert.deepEqual(await look(NAME), before);
  });

  test('an adoption that comes again is the same one', async (t) => {
    const scene = await start(t);
    const { peer, owner, order, look } = scene;
    const version = await own(scene);
    const before = await look(NAME);
    const made = order();
    await peer.adopt(made, version, owner);
    await peer.adopt(made, version, owner);
    await peer.remove(NAME, 'undo', keyOf(made));
    assert.deepEqual(await look(NAME), before);
  });

  test('a service that changed since it was looked at is not adopted', async (t) => {
    const scene = await start(t);
    const { peer, owner, order, change, look } = scene;
    const version = await own(scene);
    await change(NAME);
    const before = await look(NAME);
    await assert.rejects(peer.adopt(order(), version, owner), code('stale'));
    assert.deepEqual(await look(NAME), before);
  });

  test('an adoption that arrives after its undo changes nothing', async (t) => {
    const scene = await start(t);
    const { peer, owner, order, look } = scene;
    const version = await own(scene);
    const before = await look(NAME);
    const made = order();
    await peer.remove(NAME, 'undo', keyOf(made));
    await assert.rejects(peer.adopt(made, version, owner), code('gone'));
    assert.deepEqual(await look(NAME), before);
  });

  test('peer: a service of another owner is not adopted', async (t) => {
    const scene = await start(t);
    const { peer, stranger, order, look } = scene;
    const version = await own(scene);
    const before = await look(NAME);
    await assert.rejects(peer.adopt(order(), version, stranger), { name: 'PeerError' });
    assert.deepEqual(await look(NAME), before);
  });
}

function describeChanging(start: Start): void {
  test('a newer revision is taken up, once or twice', async (t) => {
    const { peer, owner, order, look } = await start(t);
    const made = order();
    await peer.create(made, owner);
    const next = order({ uid: made.uid, key: made.key, revision: 2, text: 'moo moo' });
    await peer.update(next, keyOf(made));
    const after = await look(NAME);
    await peer.update(next, keyOf(made));
    const state = await peer.inspect(NAME, keyOf(made));
    assert.deepEqual([state?.revision, state?.digest], [2, next.digest]);
    assert.deepEqual(await look(NAME), after);
  });

  test('an older revision is stale, and changes nothing', async (t) => {
    const { peer, owner, order, look } = await start(t);
    const made = order({ revision: 5 });
    await peer.create(made, owner);
    const before = await look(NAME);
    const older = order({ uid: made.uid, key: made.key, revision: 4, text: 'old moo' });
    await assert.rejects(peer.update(older, keyOf(made)), code('stale'));
    assert.deepEqual(await look(NAME), before);
    assert.equal((await peer.inspect(NAME, keyOf(made)))?.digest, made.digest);
  });

  test('with another key nothing is seen, changed or ended', async (t) => {
    const { peer, owner, order, look } = await start(t);
    const made = order();
    await peer.create(made, owner);
    const before = await look(NAME);
    const forged = order({ uid: made.uid, revision: 2 });
    const seen = await peer.inspect(NAME, keyOf(forged)).catch(() => undefined);
    assert.equal(seen, undefined);
    await assert.rejects(peer.update(forged, keyOf(forged)), { name: 'PeerError' });
    await peer.remove(NAME, 'undo', keyOf(forged)).catch(() => undefined);
    assert.deepEqual(await look(NAME), before);
    assert.equal((await peer.inspect(NAME, keyOf(made)))?.digest, made.digest);
  });
}

function describeRekeying(start: Start): void {
  const other = ({ order }: Scene, made: WorkerOrder, changes: Parameters<Scene['order']>[0] = {}) =>
    order({ uid: made.uid, revision: made.revision, ...changes });

  test('another key of the same federation replaces the one it has, and brings its revision', async (t) => {
    const scene = await start(t);
    const { peer, owner } = scene;
    const made = scene.order();
    await peer.create(made, owner);
    const next = other(scene, made, { revision: 2, text: 'moo moo' });
    assert.equal(await peer.rekey(next, owner), true);
    assert.equal(await peer.rekey(next, owner), true, 'again');
    const state = await peer.inspect(NAME, keyOf(next));
    assert.deepEqual([state?.revision, state?.digest], [2, next.digest]);
    await assert.rejects(peer.inspect(NAME, keyOf(made)), code('refused'), 'the new one has been used');
    await peer.remove(NAME, 'undo', keyOf(next));
    assert.equal((await peer.probe(NAME, owner)).found, 'nothing');
  });

  test('the old key is good until the new one is used', async (t) => {
    const scene = await start(t);
    const { peer, owner } = scene;
    const made = scene.order();
    await peer.create(made, owner);
    const next = other(scene, made);
    await peer.rekey(next, owner);
    assert.equal((await peer.inspect(NAME, keyOf(made)))?.revision, 1);
    const later = scene.order({ uid: made.uid, key: made.key, revision: 2 });
    await peer.update(later, keyOf(made));
    assert.equal((await peer.inspect(NAME, keyOf(next)))?.revision, 2);
    await assert.rejects(peer.update(later, keyOf(made)), code('refused'));
  });

  test('what was adopted is given back by either key', async (t) => {
    for (const used of ['old', 'new'] as const) {
      const scene = await start(t);
      const { peer, owner, look } = scene;
      await scene.make(NAME);
      const before = await look(NAME);
      const probe = await peer.probe(NAME, owner);
      const made = scene.order();
      await peer.adopt(made, probe.found === 'own' ? probe.version : '', owner);
      const next = other(scene, made);
      await peer.rekey(next, owner);
      await peer.remove(NAME, 'undo', keyOf(used === 'old' ? made : next));
      assert.deepEqual(await look(NAME), before, used);
    }
  });

  test('a key that was overtaken by a later revision is stale, and replaces nothing', async (t) => {
    const scene = await start(t);
    const { peer, owner } = scene;
    const made = scene.order({ revision: 3 });
    await peer.create(made, owner);
    await assert.rejects(peer.rekey(other(scene, made, { revision: 2 }), owner), code('stale'));
    assert.equal((await peer.inspect(NAME, keyOf(made)))?.digest, made.digest);
  });

  test('peer: without a worker of this federation there is none, and the request creates none', async (t) => {
    const scene = await start(t);
    const { peer, owner, order, make, look } = scene;
    assert.equal(await peer.rekey(order(), owner), false);
    await make(NAME);
    const before = await look(NAME);
    assert.equal(await peer.rekey(order(), owner), false);
    assert.deepEqual(await look(NAME), before);
  });

  test('peer: only the owner gives a worker another key', async (t) => {
    const scene = await start(t);
    const { peer, owner, stranger, nobody } = scene;
    const made = scene.order();
    await peer.create(made, owner);
    await assert.rejects(peer.rekey(other(scene, made), stranger), { name: 'PeerError' });
    await assert.rejects(peer.rekey(other(scene, made), nobody), code('refused'));
    assert.equal((await peer.inspect(NAME, keyOf(made)))?.digest, made.digest);
  });

  test('a key that was ended before it arrived replaces nothing', async (t) => {
    const scene = await start(t);
    const { peer, owner } = scene;
    const made = scene.order();
    await peer.create(made, owner);
    const next = other(scene, made);
    await peer.remove(NAME, 'undo', keyOf(next));
    await assert.rejects(peer.rekey(next, owner), code('gone'));
    assert.equal((await peer.inspect(NAME, keyOf(made)))?.digest, made.digest);
  });
}

function describeEnding(start: Start): void {
  test('what was undone is not there, and is not made again with that key', async (t) => {
    const { peer, owner, order, look } = await start(t);
    const made = order();
    await peer.create(made, owner);
    await peer.remove(NAME, 'undo', keyOf(made));
    await peer.remove(NAME, 'undo', keyOf(made));
    await assert.rejects(peer.create(made, owner), code('gone'));
    assert.equal(await look(NAME), undefined);
  });

  test('an undo that overtakes its create leaves a mark, which hinders that key alone', async (t) => {
    const { peer, owner, order } = await start(t);
    const late = order();
    await peer.remove(NAME, 'undo', keyOf(late));
    await assert.rejects(peer.create(late, owner), code('gone'));
    assert.equal((await peer.probe(NAME, owner)).found, 'nothing');
    await peer.create(order({ uid: late.uid }), owner);
    assert.equal((await peer.probe(NAME, owner)).found, 'member');
  });

  test('a worker that has another key is not ended with one that it had, and that is said', async (t) => {
    const { peer, owner, order } = await start(t);
    const made = order();
    await peer.create(made, owner);
    const next = order({ uid: made.uid });
    assert.equal(await peer.rekey(next, owner), true);
    await peer.inspect(NAME, keyOf(next));
    assert.equal(await peer.remove(NAME, 'undo', keyOf(made)), 'held');
    assert.equal((await peer.probe(NAME, owner)).found, 'member');
    assert.equal(await peer.remove(NAME, 'undo', keyOf(order())), 'ended', 'it is of another federation');
    assert.equal(await peer.remove(NAME, 'undo', keyOf(next)), 'ended');
    assert.equal(await peer.remove(NAME, 'undo', keyOf(made)), 'ended');
    assert.equal((await peer.probe(NAME, owner)).found, 'nothing');
  });

  test('a worker that is let go is a service of its owner', async (t) => {
    const { peer, owner, order } = await start(t);
    const made = order();
    await peer.create(made, owner);
    await peer.remove(NAME, 'detach', keyOf(made));
    await peer.remove(NAME, 'detach', keyOf(made));
    assert.equal((await peer.probe(NAME, owner)).found, 'own');
    await assert.rejects(peer.update(order({ uid: made.uid, key: made.key, revision: 2 }), keyOf(made)), {
      name: 'PeerError',
    });
  });
}

/** Our managers answer as if the name were free; the create is rejected. Others may say that it is taken, and no more. */
function assertNotDisclosed({ found }: Probe): void {
  assert.ok(found === 'nothing' || found === 'taken', found);
}
