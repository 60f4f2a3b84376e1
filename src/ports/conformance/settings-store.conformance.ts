import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import type { SettingsStore } from '../settings-store.ts';
import { onlyOneWon } from './only-one-won.ts';

export interface SettingsStoreUnderTest {
  /** Never written to. */
  store: SettingsStore;
  close(): void | Promise<void>;
}

const CROWD = 20;

/** What every {@link SettingsStore} promises. */
export function describeSettingsStore(name: string, make: () => Promise<SettingsStoreUnderTest>): void {
  const start = async (t: TestContext): Promise<SettingsStore> => {
    const made = await make();
    t.after(() => made.close());
    return made.store;
  };

  describe(`${name} as a SettingsStore`, () => {
    test('before the first write every image is allowed, and there is no version', async (t) => {
      const store = await start(t);
      assert.deepEqual(await store.read(), { settings: { allowedImageRepositories: [] } });
    });

    test('settings are read back unchanged', async (t) => {
      const store = await start(t);
      const written = await store.write({ allowedImageRepositories: ['ghcr.io/grycap', 'docker.io/🐄'] });
      assert.ok(written.version);
      assert.deepEqual(written.settings.allowedImageRepositories, ['ghcr.io/grycap', 'docker.io/🐄']);
      assert.deepEqual(await store.read(), written);
    });

    test('without a version the last writer wins', async (t) => {
      const store = await start(t);
      const first = await store.write({ allowedImageRepositories: ['a'] });
      const second = await store.write({ allowedImageRepositories: ['b'] });
      assert.notEqual(first.version, second.version);
      assert.deepEqual((await store.read()).settings.allowedImageRepositories, ['b']);
    });

    test('of concurrent writes with one version, one succeeds', async (t) => {
      const store = await start(t);
      const { version } = await store.write({ allowedImageRepositories: [] });
      const attempts = await Promise.allSettled(
        Array.from({ length: CROWD }, (_, i) => store.write({ allowedImageRepositories: [`r${i}`] }, version)),
      );
      assert.deepEqual(await store.read(), onlyOneWon(attempts, 'conflict'));
    });
  });
}
