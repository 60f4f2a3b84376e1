import { allSettled } from '../../lib/concurrency.ts';
import { Secret } from '../../lib/secret.ts';
import type { SeenRequest, SeenRequests } from '../../model/job/index.ts';
import { type Credential, recordRequest } from '../../peers/index.ts';
import type { SecretStore } from '../../ports/index.ts';
import { isWriteConflict } from './ledger.ts';

/** Keys of members, by key id. */
export type MemberKeys = ReadonlyMap<string, Secret>;

interface KeyStore {
  readonly secrets: SecretStore;
}

export async function storeKeys(keys: MemberKeys, { secrets }: KeyStore): Promise<void> {
  await allSettled([...keys].map(([id, key]) => secrets.put('member', id, { key })));
}

export async function deleteKeys(ids: Iterable<string>, { secrets }: KeyStore): Promise<void> {
  await allSettled([...ids].map((id) => secrets.remove('member', id)));
}

export async function readKey(id: string, { secrets }: KeyStore): Promise<Secret | undefined> {
  return (await secrets.get('member', id))?.values['key'];
}

/**
 * Stores the credential with which a member on a Go manager is ended. It is stored with the member's key and deleted with
 * it, because the owner's grant is deleted with the service. The first credential is kept: it is the owner's.
 */
export async function storeStandIn(id: string, as: Credential, { secrets }: KeyStore): Promise<void> {
  await amendKey(id, { secrets }, ({ standIn }) => (standIn ? undefined : { standIn: writeCredential(as) }));
}

export async function readStandIn(id: string, { secrets }: KeyStore): Promise<Credential | undefined> {
  const kept = (await secrets.get('member', id))?.values['standIn'];
  return kept && readCredential(kept);
}

function writeCredential(as: Credential): Secret {
  const plain =
    as.kind === 'bearer' ? { token: as.token.reveal() } : { username: as.username, password: as.password.reveal() };
  return new Secret(JSON.stringify(plain));
}

function readCredential(kept: Secret): Credential {
  const plain = JSON.parse(kept.reveal()) as { token: string } | { username: string; password: string };
  if ('token' in plain) return { kind: 'bearer', token: new Secret(plain.token) };
  return { kind: 'basic', username: plain.username, password: new Secret(plain.password) };
}

/**
 * Records a signed request, and returns whether it is new. The record is stored with the key, by compare-and-swap: if
 * several managers receive the same request, one of them gets true.
 */
export async function recordKeyUse(id: string, asking: SeenRequest, { secrets }: KeyStore): Promise<boolean> {
  return amendKey(id, { secrets }, ({ asked: before }) => {
    const known = before && (JSON.parse(before.reveal()) as SeenRequests);
    const asked = recordRequest(known, asking);
    return asked && { asked: new Secret(JSON.stringify(asked)) };
  });
}

type Values = Readonly<Record<string, Secret>>;

/** Adds values to the stored key, and retries on conflict. Returns false if there is nothing to add, or no key. */
async function amendKey(
  id: string,
  { secrets }: KeyStore,
  change: (values: Values) => Values | undefined,
): Promise<boolean> {
  for (;;) {
    const record = await secrets.get('member', id);
    const more = record && change(record.values);
    if (!more) return false;
    try {
      await secrets.put('member', id, { ...record.values, ...more }, record.version);
      return true;
    } catch (error) {
      if (!isWriteConflict(error)) throw error;
    }
  }
}
