import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { isFinal, type JobKey, type JobRecord } from '../../model/job/index.ts';
import { type AttemptKey, DelegationError } from '../../peers/index.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import { commit } from './commit.ts';
import { History } from './history.fixture.ts';
import { idOf, openScene, type Scene } from './origin.fixture.ts';
import { failure, type Play } from './scripted-target.fixture.ts';

const RUNS = 3 * Number(process.env['OSCAR_TEST_ROUNDS'] ?? 5);

/** Only two, so that a job often returns to a member that had it before. */
const CLUSTERS = ['b', 'c'];

const member = fc.constantFrom(...CLUSTERS);
const play = fc.constantFrom<Play>(
  'take',
  'take',
  'take-unheard',
  'silent',
  'permit-silent',
  { refuse: 'no-room' },
  { refuse: 'input-unreadable', after: 'permit' },
);
const word = fc.constantFrom('running', 'failed', 'succeeded', 'released', 'permit');

/** The steps, in any order. `which` selects one of the jobs or attempts that exist by then. */
const step = fc.oneof(
  { weight: 1, arbitrary: fc.record({ do: fc.constant('submit' as const), opened: fc.option(member) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('play' as const),
      id: member,
      plays: fc.array(play, { minLength: 1, maxLength: 3 }),
    }),
  },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('say' as const), id: member, which: fc.nat(20), word }) },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant('pass' as const), ms: fc.constantFrom(500, 5_000, 20_000, 160_000) }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('restart' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('cancel' as const), which: fc.nat(20) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constantFrom('fill' as const, 'empty' as const, 'end' as const) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('echo' as const), word }) },
  // Without this step, the next one begins while the last is still in progress.
  { weight: 8, arbitrary: fc.record({ do: fc.constant('settle' as const) }) },
);

type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

interface Stage {
  readonly scene: Scene;
  readonly jobs: JobKey[];
}

async function take(next: Step, { scene, jobs }: Stage): Promise<void> {
  switch (next.do) {
    case 'submit': {
      const opened = next.opened === null ? {} : { openedBy: `${next.opened}/demo-${next.opened}`, byToken: true };
      jobs.push(await scene.submit('{}', opened));
      return;
    }
    case 'play':
      scene.target(next.id).plays = [...next.plays];
      return;
    case 'say':
      return say(scene, next);
    case 'echo':
      return echo(scene, next.word);
    case 'pass':
      return scene.clock.pass(next.ms);
    case 'restart':
      return scene.restart();
    case 'cancel': {
      const key = jobs[next.which % Math.max(1, jobs.length)];
      if (key) await scene.manager.current.line.cancel(key, 'cancelled');
      return;
    }
    case 'fill':
      return scene.fill();
    case 'empty':
      return scene.empty();
    case 'end':
      return endLocal(scene);
    case 'settle':
      return settle(scene, jobs);
  }
}

/** Waits until offers in progress have ended, for a limited time. */
async function settle(scene: Scene, jobs: readonly JobKey[]): Promise<void> {
  for (let turn = 0; turn < 300; turn++) {
    const records = await Promise.all(jobs.map((key) => scene.job(key)));
    if (turn > 10 && records.every(({ state }) => state !== 'offering')) return;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** A member reports about one of its attempts, or renews its permit; it may be an old attempt. */
async function say(scene: Scene, { id, which, word: said }: Extract<Step, { do: 'say' }>): Promise<void> {
  const target = scene.target(id);
  const attempts = [...target.taken.values()];
  const attempt = attempts[which % Math.max(1, attempts.length)];
  if (!attempt) return;
  const before = await scene.store.get(attempt.job);
  try {
    if (said === 'permit') await target.origin?.permit(attempt);
    else await target.says(await reportOf(scene, attempt, said), attempt);
  } catch (error) {
    assert.ok(error instanceof DelegationError && error.code === 'fenced', String(error));
    return;
  }
  // An accepted report was about the current epoch; the epoch may have been raised since.
  assert.ok((before?.epoch ?? 0) <= attempt.epoch, 'a report about an old attempt was accepted');
}

/** All members report again about attempts that they lost: every report is rejected. */
async function echo(scene: Scene, said: Extract<Step, { do: 'say' }>['word']): Promise<void> {
  for (const id of CLUSTERS) {
    const target = scene.target(id);
    for (const attempt of target.taken.values()) {
      const record = await scene.job(attempt.job);
      if (record.epoch === attempt.epoch) continue;
      const spoken =
        said === 'permit' ? target.origin?.permit(attempt) : target.says(await reportOf(scene, attempt, said), attempt);
      await assert.rejects(spoken ?? Promise.resolve(), { code: 'fenced' });
    }
  }
}

async function reportOf(
  scene: Scene,
  attempt: AttemptKey,
  said: Exclude<Extract<Step, { do: 'say' }>['word'], 'permit'>,
) {
  const now = scene.clock.now();
  if (said === 'running') return { state: 'running', startedAt: now } as const;
  if (said === 'released') return { state: 'released', reason: 'NoRoom', message: 'no room' } as const;
  if (said === 'failed') return failure(now);
  const manifest = await scene.stage(attempt, { [`${attempt.job.id}.txt`]: `by epoch ${attempt.epoch}` });
  return { state: 'succeeded', manifest, finishedAt: now, exitCode: 0, reason: 'Completed', message: '' } as const;
}

function endLocal({ runner }: Scene): void {
  for (const [name, { seen }] of runner.attempts) if (seen.phase !== 'ended') runner.end(name);
}

/** Ends all faults: every member accepts all offers and completes its jobs. */
async function heal({ scene, jobs }: Stage): Promise<JobRecord[]> {
  scene.empty();
  for (const id of CLUSTERS) scene.target(id).plays = ['take'];
  const look = async () => {
    // Small steps, so that on a busy machine members report before their leases expire.
    scene.clock.pass(5_000);
    endLocal(scene);
    const records = await Promise.all(jobs.map((key) => scene.job(key)));
    for (const { state, placement, service, id, message } of records) {
      assert.notEqual(message, '');
      if (state !== 'delegated' || !placement) continue;
      const [cluster = ''] = placement.member.split('/');
      const attempt = { job: { service, id }, epoch: placement.epoch };
      if (!scene.target(cluster).taken.has(`${service}/${id}/${placement.epoch}`)) continue;
      await scene
        .target(cluster)
        .says(await reportOf(scene, attempt, 'succeeded'), attempt)
        .catch(() => undefined);
    }
    for (const { id, state, message } of records) assert.ok(isFinal(state), `${id} is ${state}: ${message}`);
    return records;
  };
  return eventually(look, 20_000, 10);
}

async function contentOf({ server }: Scene, key: string): Promise<string> {
  return Buffer.concat(await server.readObject({ bucket: 'demo', key }).stream.toArray()).toString();
}

/** The output bucket has the results of exactly the jobs that succeeded at a member, each of one epoch. */
async function assertOutputs(scene: Scene, records: readonly JobRecord[]): Promise<void> {
  const outputs = new Set(scene.outputs());
  for (const { id, state, placement, epoch } of records) {
    const remote = state === 'succeeded' && placement?.epoch === epoch && placement.manifest !== undefined;
    assert.equal(outputs.has(`out/${id}.txt`), remote, `${id} ended ${state}`);
    if (remote) assert.equal(await contentOf(scene, `out/${id}.txt`), `by epoch ${epoch}`);
  }
}

/** No capacity is reserved anywhere. It is released right after the end of a job is written. */
async function assertFree({ manager, record }: Scene): Promise<void> {
  const { capacity, delegator } = manager.current;
  await eventually(async () => {
    const requested = capacity.nodes().map((node) => node.requested.cpu);
    assert.deepEqual(requested, [0]);
    const held = await Promise.all(CLUSTERS.map((id) => delegator.outstanding(record.service.uid, idOf(id))));
    assert.deepEqual(held, [0, 0]);
  });
}

test('delegate (model): whatever members do and whichever manager stops, each job ends, one epoch is committed, and older epochs are fenced', async () => {
  const all = fc.array(step, { minLength: 10, maxLength: 60, size: 'max' });
  const federations = fc.record({
    topology: fc.constantFrom('star', 'mesh'),
    delegate_when: fc.constantFrom('saturated', 'always'),
    delegation: fc.constantFrom('static', 'random', 'load-based'),
  });
  await fc.assert(
    fc.asyncProperty(all, federations, fc.boolean(), async (steps, federation, shared) => {
      const history = new History();
      const committed = new Map<string, Set<string>>();
      await using scene = await openScene({
        clusters: CLUSTERS,
        federation,
        shared,
        saw: (record) => history.saw(record),
        deps: {
          commit: async (order) => {
            const { id, epoch } = order.record;
            committed.set(id, (committed.get(id) ?? new Set()).add(`${epoch} ${order.manifest}`));
            return commit(order, scene.commitDeps);
          },
        },
      });
      const stage: Stage = { scene, jobs: [] };
      scene.fill();
      await take({ do: 'submit', opened: null }, stage);
      for (const each of steps) await take(each, stage);
      const records = await heal(stage);

      assert.deepEqual(history.problems, []);
      for (const [id, once] of committed) assert.equal(once.size, 1, `${id} was committed as ${[...once].join(', ')}`);
      for (const said of ['running', 'failed', 'succeeded', 'released', 'permit'] as const) await echo(scene, said);
      assert.deepEqual(await Promise.all(stage.jobs.map((key) => scene.job(key))), records);
      await assertOutputs(scene, records);
      await assertFree(scene);
    }),
    // A stuck example takes the whole deadline, and shrinking would repeat that many times.
    { numRuns: RUNS, endOnFailure: true },
  );
});
