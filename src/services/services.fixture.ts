import { randomUUID } from 'node:crypto';
import { describe } from 'node:test';
import { seededRandom } from '../../test/support/seeded-random.ts';
import { makeTemporaryDirectory, removeTemporaryDirectory } from '../../test/support/temporary-directory.ts';
import { openLocalCluster } from '../adapters/sqlite/index.ts';
import { makeUnreliable } from '../adapters/sqlite/unreliable-service-store.fixture.ts';
import { type Admin, newServiceToken, type User, UserNames } from '../identity/index.ts';
import type { Services } from './services.ts';

export const admin: Admin = { kind: 'admin' };
export const alice: User = person('00000001-alice-4000-8000-000000000001', 'Alice');
export const bob: User = person('00000002-bob-4000-8000-000000000002', 'Bob');

function person(uid: string, name: string): User {
  return { kind: 'user', uid, name, groups: ['/oscar'], operator: false };
}

/** The smallest valid body, with the overrides of the test. */
export const body = (more: Record<string, unknown> = {}) => ({
  name: 'demo',
  image: 'ubuntu',
  script: 'echo',
  ...more,
});

export interface TestCatalog extends Services, AsyncDisposable {}

/** Runs the tests on the real store, and on one that behaves as badly as the port allows. */
export function describeCatalog(name: string, tests: (open: () => TestCatalog) => void): void {
  describe(name, () => tests(() => openCatalog(false)));
  describe(`${name}, on an unruly store`, () => tests(() => openCatalog(true)));
}

function openCatalog(isUnruly: boolean): TestCatalog {
  const directory = makeTemporaryDirectory();
  const cluster = openLocalCluster({ directory });
  return {
    ...cluster,
    services: isUnruly
      ? makeUnreliable(cluster.services, seededRandom(Number(process.env['OSCAR_TEST_SEED'] ?? 1)))
      : cluster.services,
    stores: { named: new Set(['minio.shared']), endpoint: 'http://store.example' },
    servicesNamespace: 'oscar-svc',
    managerName: 'oscar',
    allowedGroups: ['/oscar'],
    users: new UserNames({ issuers: [] }),
    now: Date.now,
    newUid: randomUUID,
    newToken: newServiceToken,
    async [Symbol.asyncDispose]() {
      await cluster.close();
      removeTemporaryDirectory(directory);
    },
  };
}
