import { allSettled } from '../../../base/all-settled.ts';
import type { Secret } from '../../../base/secret.ts';
import type { SecretStore } from '../../../cluster/index.ts';

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
