import { randomUUID } from 'node:crypto';
import { setImmediate as turn } from 'node:timers/promises';
import { makeTemporaryDirectory, removeTemporaryDirectory } from '../../../test/support/temporary-directory.ts';
import { openLocalCluster } from '../../adapters/sqlite/index.ts';
import { Secret } from '../../lib/secret.ts';
import { GRANT_SLOT } from '../../model/service/index.ts';
import { listAllPages, type SecretStore } from '../../ports/index.ts';
import { attachGrant, detachGrants, type Submitter } from './attach.ts';
import type { Grant, Vault } from './grant.ts';

export interface TestVault extends Vault, AsyncDisposable {
  now: () => number;
}

/** A vault on a real store. `random` reorders concurrent requests to it. */
export function openVault(random?: () => number): TestVault {
  const directory = makeTemporaryDirectory();
  const cluster = openLocalCluster({ directory });
  return {
    secrets: random ? shuffled(cluster.secrets, random) : cluster.secrets,
    now: Date.now,
    newUid: randomUUID,
    async [Symbol.asyncDispose]() {
      await cluster.close();
      removeTemporaryDirectory(directory);
    },
  };
}

function shuffled(store: SecretStore, random: () => number): SecretStore {
  const late = async <T>(ask: () => Promise<T>): Promise<T> => {
    for (let turns = Math.floor(random() * 4); turns > 0; turns--) await turn();
    return ask();
  };
  return {
    get: (room, key) => late(() => store.get(room, key)),
    put: (room, key, values, expected) => late(() => store.put(room, key, values, expected)),
    remove: (room, key) => late(() => store.remove(room, key)),
    keys: (room, cursor) => store.keys(room, cursor),
  };
}

export const user = (uid: string) => ({ kind: 'user', uid }) as const satisfies Submitter;
export const ADMIN: Submitter = { kind: 'admin' };

/** As an update of a service does it: attach the new grant, store its id in the slot, detach the old one. */
export async function submit(token: string, submitter: Submitter, service: string, vault: Vault): Promise<string> {
  const id = await attachGrant(new Secret(token), submitter, service, vault);
  await vault.secrets.put('credentials', service, { [GRANT_SLOT]: new Secret(id) });
  await detachGrants(service, vault);
  return id;
}

export async function removeService(service: string, vault: Vault): Promise<void> {
  await vault.secrets.remove('credentials', service);
  await detachGrants(service, vault);
}

/** The complete contents of the vault. */
export async function contents({ secrets }: Pick<Vault, 'secrets'>) {
  const keys = (await listAllPages((cursor) => secrets.keys('grant', cursor))).flat();
  const grants: Grant[] = [];
  const marks = new Map<string, string>();
  const holdings = new Map<string, readonly string[]>();
  for (const key of keys) {
    const { values = {} } = (await secrets.get('grant', key)) ?? {};
    const [kind, name = ''] = key.split('/');
    if (kind === 'grant') grants.push(JSON.parse(values['grant']?.reveal() ?? ''));
    if (kind === 'token') marks.set(name, values['grant']?.reveal() ?? '');
    if (kind === 'service') holdings.set(name, JSON.parse(values['grants']?.reveal() ?? ''));
  }
  return { keys, grants, marks, holdings };
}
