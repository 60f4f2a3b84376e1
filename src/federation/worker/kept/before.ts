import { Secret } from '../../../base/secret.ts';
import { type Catalog, loadSecrets, ownerOfSecrets } from '../../../catalog/index.ts';
import { StoreError } from '../../../cluster/index.ts';
import type { Definition, DefinitionSecrets, Service } from '../../../service/index.ts';

/** What a service was before it was adopted: enough to make it that again, byte for byte. */
export interface Before {
  readonly definition: Definition;
  readonly token: Secret;
  readonly secrets: DefinitionSecrets;
}

const ROOM = 'credentials';
/** By the key of the adoption and not by the service: what an adoption has left must not be taken for that of the next. */
const place = (keyId: string) => `before/${keyId}`;

type Stores = Pick<Catalog, 'secrets'>;

/** Sealed whole, like the secrets that are in it. */
export async function saveBefore(keyId: string, service: Service, { secrets }: Stores): Promise<void> {
  const { environment, credentials } = await loadSecrets(ownerOfSecrets(service), { secrets });
  await secrets.put(ROOM, place(keyId), {
    definition: new Secret(JSON.stringify(service.definition)),
    token: service.token,
    environment: pack(environment),
    credentials: pack(credentials),
  });
}

export async function loadBefore(keyId: string, { secrets }: Stores): Promise<Before | undefined> {
  const record = await secrets.get(ROOM, place(keyId));
  if (!record) return undefined;
  const { definition, token, environment, credentials } = record.values;
  if (!definition || !token || !environment || !credentials) {
    throw new StoreError('damaged', `what a service was before its adoption is incomplete: restore before/${keyId}`);
  }
  return {
    definition: JSON.parse(definition.reveal()) as Definition,
    token,
    secrets: { environment: unpack(environment), credentials: unpack(credentials) },
  };
}

/** For another key of the same adoption. */
export async function copyBefore(from: string, to: string, { secrets }: Stores): Promise<void> {
  const record = await secrets.get(ROOM, place(from));
  if (record) await secrets.put(ROOM, place(to), record.values);
}

export async function forgetBefore(keyId: string, { secrets }: Stores): Promise<void> {
  await secrets.remove(ROOM, place(keyId));
}

type Bundle = DefinitionSecrets['environment'];

function pack(bundle: Bundle): Secret {
  return new Secret(JSON.stringify(Object.entries(bundle).map(([name, secret]) => [name, secret.reveal()])));
}

function unpack(packed: Secret): Bundle {
  const entries = JSON.parse(packed.reveal()) as [string, string][];
  return Object.fromEntries(entries.map(([name, value]) => [name, new Secret(value)]));
}
