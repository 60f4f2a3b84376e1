import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { Secret } from '../../lib/secret.ts';
import type { Version } from '../../lib/version.ts';
import { listAllPages } from '../cursor.ts';
import type { SecretKind, SecretRecord, SecretStore, SecretValues } from '../secret-store.ts';
import { onlyOneWon } from './only-one-won.ts';

export interface SecretStoreUnderTest {
  /** Empty. */
  store: SecretStore;
  close(): void | Promise<void>;
}

const ROOMS: readonly SecretKind[] = ['service', 'credentials', 'user', 'grant', 'job', 'member', 'manager'];
const CROWD = 20;

/** What every {@link SecretStore} promises. */
export function describeSecretStore(name: string, make: () => Promise<SecretStoreUnderTest>): void {
  const start = async (t: TestContext): Promise<SecretStore> => {
    const made = await make();
    t.after(() => made.close());
    return made.store;
  };

  describe(`${name} as a SecretStore`, () => {
    test('values are read back as secrets', async (t) => {
      const store = await start(t);
      const version = await store.put('user', 'alice', values({ accessKey: 'A', secretKey: 'S' }));
      const record = await store.get('user', 'alice');
      assert.ok(record);
      assert.equal(record.version, version);
      assert.ok(record.values['accessKey'] instanceof Secret);
      assert.deepEqual(revealed(record), { accessKey: 'A', secretKey: 'S' });
    });

    test('an unused key is undefined', async (t) => {
      const store = await start(t);
      assert.equal(await store.get('user', 'alice'), undefined);
      assert.equal(await store.get('user', '__proto__'), undefined);
    });

    test('put replaces all values and returns a new version', async (t) => {
      const store = await start(t);
      const first = await store.put('service', 'ns/cow', values({ A: '1', B: '2' }));
      const second = await store.put('service', 'ns/cow', values({ B: '3' }));
      assert.notEqual(first, second);
      assert.deepEqual(revealed(await store.get('service', 'ns/cow')), { B: '3' });
    });

    test('an empty record is stored', async (t) => {
      const store = await start(t);
      await store.put('service', 'ns/cow', {});
      assert.deepEqual(revealed(await store.get('service', 'ns/cow')), {});
    });

    test('values are read back unchanged', async (t) => {
      const store = await start(t);
      const odd: Record<string, string> = JSON.parse(
        '{"__proto__":"p","constructor":"c","":"no name","ключ":"🐄","blank":"","lines":"a\\r\\nb\\u0000c"}',
      );
      odd['long'] = 'x'.repeat(200_000);
      // Not in the room of services, where names are those of environment variables.
      await store.put('credentials', 'uid-1', values(odd));
      assert.deepEqual(revealed(await store.get('credentials', 'uid-1')), odd);
    });

    test('kinds share no keys', async (t) => {
      const store = await start(t);
      for (const room of ROOMS) await store.put(room, 'ns/minio', values({ room }));
      for (const room of ROOMS) assert.deepEqual(revealed(await store.get(room, 'ns/minio')), { room });
      await store.remove('user', 'ns/minio');
      for (const room of ROOMS) assert.equal((await store.get(room, 'ns/minio')) === undefined, room === 'user');
    });

    test('of concurrent creates of one record, one succeeds', async (t) => {
      const store = await start(t);
      const attempts = await Promise.allSettled(
        Array.from({ length: CROWD }, (_, i) => store.put('manager', 'key', values({ i: String(i) }), 'absent')),
      );
      assert.equal(onlyOneWon(attempts, 'exists'), (await store.get('manager', 'key'))?.version);
    });

    test('of concurrent changes of one version, one succeeds', async (t) => {
      const store = await start(t);
      const version = await store.put('grant', 'g1', values({ token: '0' }));
      const attempts = await Promise.allSettled(
        Array.from({ length: CROWD }, (_, i) => store.put('grant', 'g1', values({ token: String(i) }), version)),
      );
      const winner = attempts.findIndex(({ status }) => status === 'fulfilled');
      assert.equal(onlyOneWon(attempts, 'conflict'), (await store.get('grant', 'g1'))?.version);
      assert.deepEqual(revealed(await store.get('grant', 'g1')), { token: String(winner) });
    });

    test('a version of a removed or re-created record conflicts', async (t) => {
      const store = await start(t);
      const version = await store.put('grant', 'g1', values({ token: 'a' }));
      await store.remove('grant', 'g1');
      await assert.rejects(store.put('grant', 'g1', values({ token: 'b' }), version), { code: 'conflict' });
      assert.equal(await store.get('grant', 'g1'), undefined);
      await store.put('grant', 'g1', values({ token: 'c' }), 'absent');
      await assert.rejects(store.put('grant', 'g1', values({ token: 'd' }), version), { code: 'conflict' });
      assert.deepEqual(revealed(await store.get('grant', 'g1')), { token: 'c' });
    });

    test('removing again is a no-op', async (t) => {
      const store = await start(t);
      await store.put('grant', 'g1', values({ token: 'a' }));
      await store.remove('grant', 'g1');
      await store.remove('grant', 'g1');
      assert.equal(await store.get('grant', 'g1'), undefined);
    });

    test('the keys of a kind are listed sorted, in pages, without other kinds', async (t) => {
      const store = await start(t);
      const keys = ['a', 'a-b/c', 'a/b', 'b', 'b%', 'b_', 'c', 'd'];
      for (const key of keys.toReversed()) await store.put('credentials', key, values({ A: 'hush' }));
      await store.put('user', 'aa', values({ A: 'hush' }));
      const listed = (await listAllPages((cursor) => store.keys('credentials', cursor))).flat();
      assert.deepEqual(listed, keys.toSorted());
      assert.deepEqual((await listAllPages((cursor) => store.keys('grant', cursor))).flat(), []);
    });

    test('an error names the record and never a value', async (t) => {
      const store = await start(t);
      await store.put('grant', 'g1', values({ token: 'hush-hush' }));
      const attempts = [
        () => store.put('grant', 'g1', values({ token: 'hush-hush' }), 'absent'),
        () => store.put('grant', 'g1', values({ token: 'hush-hush' }), 'other' as Version),
      ];
      for (const attempt of attempts) {
        await assert.rejects(attempt, (error: Error) => {
          assert.match(error.message, /g1/);
          assert.doesNotMatch(`${error.stack} ${JSON.stringify(error)}`, /hush/);
          return true;
        });
      }
    });
  });
}

function values(plain: Record<string, string>): SecretValues {
  return Object.fromEntries(Object.entries(plain).map(([name, value]) => [name, new Secret(value)]));
}

function revealed(record: SecretRecord | undefined): Record<string, string> {
  assert.ok(record, 'there is no such record');
  return Object.fromEntries(Object.entries(record.values).map(([name, secret]) => [name, secret.reveal()]));
}
