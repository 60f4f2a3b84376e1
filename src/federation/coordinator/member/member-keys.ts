import { allSettled } from '../../../base/all-settled.ts';
import { Secret } from '../../../base/secret.ts';
import type { AskedBefore, Asking, SecretStore } from '../../../cluster/index.ts';
import { isOvertaken } from '../../ledger-store.ts';
import { withAsking } from '../../peer/asked-before.ts';

/** Keys of members by their ids. */
export type MemberKeys = ReadonlyMap<string, Secret>;

interface Keeping {
  readonly secrets: SecretStore;
}

export async function keepKeys(keys: MemberKeys, { secrets }: Keeping): Promise<void> {
  await allSettled([...keys].map(([id, key]) => secrets.put('member', id, { key })));
}

export async function dropKeys(ids: Iterable<string>, { secrets }: Keeping): Promise<void> {
  await allSettled([...ids].map((id) => secrets.remove('member', id)));
}

export async function readKey(id: string, { secrets }: Keeping): Promise<Secret | undefined> {
  return (await secrets.get('member', id))?.values['key'];
}

/**
 * Is this the first time that a request was signed with this key? It is written down beside the key, with which it goes: of
 * all managers that hear the same request, one is told so.
 */
export async function noteUse(id: string, asking: Asking, { secrets }: Keeping): Promise<boolean> {
  for (;;) {
    const record = await secrets.get('member', id);
    const before = record?.values['asked']?.reveal();
    const asked = withAsking(before === undefined ? undefined : (JSON.parse(before) as AskedBefore), asking);
    if (!record || !asked) return false;
    try {
      await secrets.put('member', id, { ...record.values, asked: new Secret(JSON.stringify(asked)) }, record.version);
      return true;
    } catch (error) {
      if (!isOvertaken(error)) throw error;
    }
  }
}
