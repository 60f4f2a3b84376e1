import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import * as fc from 'fast-check';
import { Secret } from '../../lib/secret.ts';
import { BOB, MANAGER, openStore, type Scene, scene, type TestStore } from './commit.fixture.ts';
import type { CommitDeps } from './commit.ts';
import { stagingArea } from './staging-area.ts';

class Crash extends Error {}

/** Counts the calls of the delegator to its dependencies, and crashes before or after one of them. */
class Steps {
  readonly #crashAt: number;
  readonly #when: 'before' | 'after';
  #step = 0;
  #dead = false;

  constructor(crashAt: number, when: 'before' | 'after') {
    this.#crashAt = crashAt;
    this.#when = when;
  }

  get crashed(): boolean {
    return this.#dead;
  }

  through<T extends object>(target: T): T {
    return new Proxy(target, {
      get: (_, name) => {
        const method: unknown = Reflect.get(target, name, target);
        if (typeof method !== 'function') return method;
        return async (...given: unknown[]) => {
          // After the crash no call has an effect, not even clean-up.
          if (this.#dead) throw new Crash();
          const now = this.#step++ === this.#crashAt;
          if (now && this.#when === 'before') this.#die();
          const result: unknown = await method.apply(target, given);
          if (now) this.#die();
          return result;
        };
      },
    });
  }

  #die(): never {
    this.#dead = true;
    throw new Crash();
  }
}

async function withFarStore(t: TestContext): Promise<Scene & { far: TestStore }> {
  const far = await openStore(t);
  const namedStores: CommitDeps['namedStores'] = new Map([
    [
      'minio.far',
      {
        type: 'minio',
        endpoint: far.endpoint,
        region: 'us-east-1',
        accessKey: new Secret(MANAGER.accessKey),
        secretKey: MANAGER.secret,
        verify: true,
      },
    ],
  ]);
  const made = await scene(
    t,
    [
      { storage_provider: 'minio', path: 'out/all' },
      { storage_provider: 'minio', path: 'out/texts', suffix: ['.txt'] },
      { storage_provider: 'minio.far', path: 'far/r' },
    ],
    { namedStores },
  );
  return { ...made, far };
}

for (const when of ['before', 'after'] as const) {
  test(`commit: after a crash ${when} any step, the next manager completes it and writes nothing twice`, async (t) => {
    const { store, far, stage, commit, deps, record } = await withFarStore(t);
    const buckets = [
      { name: 'out', of: store },
      { name: 'far', of: far },
    ];
    let crashes = 0;
    for (let crashAt = 0; crashAt === crashes; crashAt++) {
      for (const { name, of } of buckets) await of.emptied(name);
      const epoch = 10 + crashAt;
      const order = { record: { ...record, epoch } };
      const manifest = await stage({ 'a.txt': 'A', 'b.txt': 'B', c: 'C' }, epoch);
      const steps = new Steps(crashAt, when);
      const parts = { objects: steps.through(deps.objects), staging: steps.through(deps.staging) };
      await commit(manifest, { ...order, ...parts }).catch((error: unknown) => {
        assert.ok(error instanceof Crash, String(error));
      });
      if (steps.crashed) {
        crashes++;
        assert.deepEqual(await commit(manifest, order), { outcome: 'committed', objects: 8, notes: [] });
      }
      const keys = ['all/a.txt', 'all/b.txt', 'all/c', 'texts/a.txt', 'texts/b.txt'];
      const letter = (key: string) => key.replace(/^.*\//, '').charAt(0).toUpperCase();
      const expected = Object.fromEntries(keys.map((key) => [key, `${letter(key)} by ${record.id}/${epoch}`]));
      assert.deepEqual(await store.content('out'), expected);
      assert.deepEqual(
        store.events().toSorted(),
        keys.map((key) => `out/${key} ${BOB}`),
      );
      assert.equal(far.events().length, 3);
    }
    assert.ok(crashes >= 12, `only ${crashes} steps were seen`);
  });
}

test('commit: whatever an earlier try has written, each file has one write and one event', async (t) => {
  const { store, deps, stage, commit, record } = await scene(t, [
    { storage_provider: 'minio', path: 'out/one' },
    { storage_provider: 'minio', path: 'out/two' },
  ]);
  const names = ['a', 'b', 'c', 'd'];
  const keys = ['one', 'two'].flatMap((folder) => names.map((name) => ({ key: `${folder}/${name}`, name })));
  const fates = fc.constantFrom('not yet', 'placed', 'placed and replaced', 'placed and removed');
  let epoch = record.epoch;
  await fc.assert(
    fc.asyncProperty(fc.array(fates, { minLength: 8, maxLength: 8 }), fc.nat(3), async (before, again) => {
      epoch++;
      const current = { ...record, epoch };
      await store.emptied('out');
      const manifest = await stage(Object.fromEntries(names.map((name) => [name, name])), epoch);
      const { bucket, files } = stagingArea(current, epoch, deps.objects);
      const by = { mark: `${record.id}/${epoch}`, as: BOB };
      const expected: Record<string, string> = {};
      for (const [index, { key, name }] of keys.entries()) {
        const fate = before[index];
        expected[key] = `${name} by ${by.mark}`;
        if (fate === 'not yet') continue;
        const eTag = store.server.statObject({ bucket, key: `${files}${name}` })?.eTag ?? '';
        await deps.objects.place({ bucket, key: `${files}${name}`, eTag }, { bucket: 'out', key }, by);
        if (fate === 'placed and replaced') {
          await store.server.putObject({ bucket: 'out', key }, Buffer.from('later'), { as: 'later' });
          expected[key] = 'later by somebody';
        }
        if (fate === 'placed and removed') {
          await store.server.deleteObject({ bucket: 'out', key });
          delete expected[key];
        }
      }
      for (let time = 0; time <= again; time++) {
        const result = await commit(manifest, { record: current });
        assert.deepEqual(result, { outcome: 'committed', objects: 8, notes: [] });
      }
      assert.deepEqual(await store.content('out'), expected);
      const ours = store.events().filter((event) => event.endsWith(` ${BOB}`));
      assert.deepEqual(ours.toSorted(), keys.map(({ key }) => `out/${key} ${BOB}`).toSorted());
    }),
    { numRuns: 5 * Number(process.env['OSCAR_TEST_ROUNDS'] ?? 5) },
  );
});

test('commit: two concurrent commits write everything once', async (t) => {
  const { store, stage, commit } = await scene(t, [{ storage_provider: 'minio', path: 'out/r' }]);
  await store.bucket('out');
  const names = Array.from({ length: 150 }, (_, n) => `${n}`.padStart(3, '0'));
  const manifest = await stage(Object.fromEntries(names.map((name) => [name, name])));
  const results = await Promise.all([commit(manifest), commit(manifest)]);
  assert.deepEqual(
    results.map(({ outcome }) => outcome),
    ['committed', 'committed'],
  );
  assert.deepEqual(
    store.events().toSorted(),
    names.map((name) => `out/r/${name} ${BOB}`),
  );
});

test('commit: after a temporary failure no further file is started, and the next try completes it', async (t) => {
  const { store, deps, stage, commit } = await scene(t, [{ storage_provider: 'minio', path: 'out/r' }]);
  await store.bucket('out');
  const files = Object.fromEntries(Array.from({ length: 200 }, (_, n) => [`${n}`, 'x']));
  const manifest = await stage(files);
  let calls = 0;
  const objects = Object.assign(Object.create(deps.objects), {
    read: deps.objects.read.bind(deps.objects),
    bucket: deps.objects.bucket.bind(deps.objects),
    place: async (...given: Parameters<CommitDeps['objects']['place']>) => {
      if (calls++ === 0) throw new Error('the store is away');
      return deps.objects.place(...given);
    },
  });
  await assert.rejects(commit(manifest, { objects }), /the store is away/);
  assert.ok(calls <= 64, `${calls} were begun`);
  assert.equal((await commit(manifest)).outcome, 'committed');
  assert.equal(store.events().length, 200);
});
