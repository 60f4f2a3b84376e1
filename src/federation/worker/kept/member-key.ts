import type { Secret } from '../../../base/secret.ts';
import type { Catalog } from '../../../catalog/index.ts';
import { forgetBefore } from './before.ts';

type Stores = Pick<Catalog, 'secrets'>;

export async function keepMemberKey(keyId: string, key: Secret, { secrets }: Stores): Promise<void> {
  await secrets.put('member', keyId, { key });
}

export async function memberKey(keyId: string, { secrets }: Stores): Promise<Secret | undefined> {
  return (await secrets.get('member', keyId))?.values['key'];
}

/** Everything that is kept for a worker beside the service itself. */
export async function forgetMember(keyId: string, stores: Stores): Promise<void> {
  await forgetBefore(keyId, stores);
  await stores.secrets.remove('member', keyId);
}
