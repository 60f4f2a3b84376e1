import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect, isDeepStrictEqual } from 'node:util';
import { Secret } from '../../lib/secret.ts';
import { alice } from '../../services/services.fixture.ts';
import { adoptWorker } from './adopt-worker.ts';
import { createWorker } from './create-worker.ts';
import { inspectWorker } from './probe-worker.ts';
import { rekeyWorker } from './rekey-worker.ts';
import { releaseWorker, removeOwnWorker } from './release-worker.ts';
import { updateWorker } from './update-worker.ts';
import type { Workers } from './worker-role.ts';
import { Crash, dying, later, NAME, type Order, openScene, order, type Scene, WORKER } from './workers.fixture.ts';

type Seen = Awaited<ReturnType<Scene['look']>>;

interface Case {
  readonly name: string;
  /** Prepares the state before the action, and returns what the action needs. */
  readonly begin: (scene: Scene) => Promise<Order>;
  readonly act: (made: Order, workers: Workers) => Promise<void>;
}

const adopted = async (scene: Scene) => {
  const { version } = await scene.own();
  const made = order();
  await adoptWorker(alice, made, version, scene.workers);
  return made;
};
const created = async (scene: Scene) => {
  const made = order();
  await createWorker(alice, made, scene.workers);
  return made;
};
const NEXT = { ...WORKER, script: 'echo next', environment: { secrets: { PASSWORD: 'next-password' } } };

const nextOf = (made: Order) => order({ uid: made.uid, key: new Secret(`next-of-${made.key.reveal()}`) });

const cases: Case[] = [
  {
    name: 'giving a worker another key',
    begin: created,
    act: async (made, workers) => void (await rekeyWorker(alice, nextOf(made), workers)),
  },
  {
    name: 'giving an adopted service another key',
    begin: adopted,
    act: async (made, workers) => void (await rekeyWorker(alice, nextOf(made), workers)),
  },
  {
    name: 'making a worker',
    begin: async () => order(),
    act: (made, workers) => createWorker(alice, made, workers),
  },
  {
    name: 'adopting a service',
    begin: async (scene) => {
      await scene.own();
      return order();
    },
    act: async (made, workers) => {
      const version = (await workers.catalog.services.get(NAME))?.version;
      if (version) await adoptWorker(alice, made, version, workers);
    },
  },
  {
    name: 'undoing a worker',
    begin: created,
    act: (made, workers) => releaseWorker(NAME, 'undo', made.keyId, workers),
  },
  {
    name: 'giving back an adopted service',
    begin: adopted,
    act: (made, workers) => releaseWorker(NAME, 'undo', made.keyId, workers),
  },
  {
    name: 'detaching an adopted service',
    begin: adopted,
    act: (made, workers) => releaseWorker(NAME, 'detach', made.keyId, workers),
  },
  {
    name: 'deleting an adopted service at its own cluster',
    begin: adopted,
    act: (_, workers) => removeOwnWorker(alice, NAME, undefined, workers),
  },
];

for (const { name, begin, act } of cases) {
  test(`crash: ${name}: a crash between any two writes leaves all of it or nothing`, async () => {
    const writes = await countWrites({ begin, act });
    assert.ok(writes > 3);
    const after = await outcomeOf({ begin, act });
    for (let at = 1; at <= writes; at++) {
      await using scene = openScene();
      const made = await begin(scene);
      const before = stable(await scene.look(), made);
      await assert.rejects(act(made, dying(scene.workers, at).workers), Crash);
      await scene.recover();
      const left = stable(await scene.look(), made);
      assert.ok(
        isDeepStrictEqual(left, before) || isDeepStrictEqual(left, after),
        `write ${at}: ${inspect(left, { depth: 9 })}`,
      );
    }
  });
}

test('crash: an update that was interrupted at any write is completed by sending it again', async () => {
  const after = await outcomeOf({ begin: adopted, act: change });
  const writes = await countWrites({ begin: adopted, act: change });
  for (let at = 1; at <= writes; at++) {
    await using scene = openScene();
    const made = await adopted(scene);
    await assert.rejects(change(made, dying(scene.workers, at).workers), Crash);
    await scene.recover();
    const state = await inspectWorker(NAME, made.keyId, scene.workers);
    assert.notDeepEqual([state?.revision, state?.digest], [2, later(made, {}, NEXT).digest]);
    await change(made, scene.workers);
    assert.deepEqual(stable(await scene.look(), made), after);
  }
});

function change(made: Order, workers: Workers): Promise<void> {
  const next = later(made, { revision: 2 }, NEXT);
  return updateWorker(NAME, { revision: 2, digest: next.digest, definition: NEXT }, made.keyId, workers);
}

async function countWrites({ begin, act }: Pick<Case, 'begin' | 'act'>): Promise<number> {
  await using scene = openScene();
  const made = await begin(scene);
  const { workers, made: counted } = dying(scene.workers, Number.POSITIVE_INFINITY);
  await act(made, workers);
  return counted.writes;
}

async function outcomeOf({ begin, act }: Pick<Case, 'begin' | 'act'>): Promise<unknown> {
  await using scene = openScene();
  const made = await begin(scene);
  await act(made, scene.workers);
  return stable(await scene.look(), made);
}

/** Removes the values that are random in every scene. */
function stable(seen: Seen, made: Order): unknown {
  const uid = seen.services[0]?.uid ?? 'none';
  const random: [string, string][] = [
    [uid, 'service-uid'],
    [seen.services[0]?.token ?? 'none', 'token'],
    [made.keyId, 'key-id'],
    [nextOf(made).keyId, 'next-key-id'],
    [made.key.reveal(), 'key'],
    [made.uid, 'federation-uid'],
  ];
  let text = JSON.stringify(seen);
  for (const [value, name] of random) text = text.replaceAll(value, name);
  return JSON.parse(text.replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}/g, 'uuid'));
}
