import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { Version } from '../../lib/version.ts';
import { serviceBodies } from '../../model/service/service.arbitrary.ts';
import { createService } from '../../services/index.ts';
import { alice } from '../../services/services.fixture.ts';
import { adoptWorker } from './adopt-worker.ts';
import { releaseWorker } from './release-worker.ts';
import { updateWorker } from './update-worker.ts';
import { dying, later, NAME, type Order, openScene, order, type Scene, WORKER } from './workers.fixture.ts';

/** What may happen to an adopted service. The manager may crash during any of it. */
const step = fc.record({
  what: fc.constantFrom('adopt', 'change', 'repeat', 'undo'),
  dies: fc.option(fc.integer({ min: 1, max: 14 }), { nil: Number.POSITIVE_INFINITY }),
});

test('adopt: after any adoptions, changes, repetitions and crashes, the undo restores the original service', async () => {
  await fc.assert(
    fc.asyncProperty(serviceBodies, fc.array(step, { minLength: 1, maxLength: 6 }), async (given, steps) => {
      await using scene = openScene();
      const own = await createService(alice, { ...given, ...PLAIN }, scene.catalog).catch(() => undefined);
      fc.pre(own !== undefined);
      const before = await scene.look();
      let made = order();
      let revision = 1;
      for (const { what, dies } of steps) {
        if (what === 'adopt') made = await anew(made, scene);
        const { workers } = dying(scene.workers, dies);
        const version = (await scene.get())?.version as Version;
        const definition = { ...WORKER, script: `echo ${++revision}` };
        const { digest } = later(made, {}, definition);
        const act = {
          adopt: () => adoptWorker(alice, made, version, workers),
          repeat: () => adoptWorker(alice, made, version, workers),
          change: () => updateWorker(NAME, { revision, digest, definition }, made.keyId, workers),
          undo: () => releaseWorker(NAME, 'undo', made.keyId, workers),
        }[what];
        await act().catch(() => undefined);
        await scene.recover();
      }
      await releaseWorker(NAME, 'undo', made.keyId, scene.workers);
      assert.deepEqual(await scene.look(), before);
    }),
    { numRuns: 4 * Number(process.env['OSCAR_TEST_ROUNDS'] ?? 3) },
  );
});

/** Any definition without blocks that this manager does not support. */
const PLAIN = {
  name: NAME,
  volume: undefined,
  mount: undefined,
  expose: undefined,
  kserve: undefined,
  interlink_node_name: '',
  total_cpu: '',
  total_memory: '',
  federation: undefined,
};

/** Another federation can adopt the service after the previous one has released it. */
async function anew(made: Order, scene: Scene): Promise<Order> {
  await releaseWorker(NAME, 'undo', made.keyId, scene.workers);
  return order();
}
