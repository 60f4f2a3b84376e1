import { allSettled } from '../../lib/concurrency.ts';
import { Secret } from '../../lib/secret.ts';
import type { SeenRequest, SeenRequests } from '../../model/job/index.ts';
import { type Credential, withAsking } from '../../peers/index.ts';
import type { SecretStore } from '../../ports/index.ts';
import { isWriteConflict } from './ledger.ts';

/** Keys of members by their ids. */
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
 * Keeps as whom a member is ended whose manager knows no keys, beside its key, with which it goes: what its owner left to
 * ask with goes with the service. The first one stays, since it is the owner's.
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
 * Is this the first time that a request was signed with this key? It is written down beside the key, with which it goes: of
 * all managers that hear the same request, one is told so.
 */
export async function recordKeyUse(id: string, asking: SeenRequest, { secrets }: KeyStore): Promise<boolean> {
  return amendKey(id, { secrets }, ({ asked: before }) => {
    const known = before && (JSON.parse(before.reveal()) as SeenRequests);
    const asked = withAsking(known, asking);
    return asked && { asked: new Secret(JSON.stringify(asked)) };
  });
}

type Values = Readonly<Record<string, Secret>>;

/** Writes more beside a key, however many others do. False when there is nothing to write, or no key. */
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
