import { Secret } from '../../lib/secret.ts';
import type { Definition, DefinitionSecrets, Service } from '../../model/service/index.ts';
import { isRace, type SecretRecord, type ServiceRecord, StoreError } from '../../ports/index.ts';
import { loadSecrets, removeSecrets, type Services, toSecretsOwner } from '../../services/index.ts';

/** What a service was before it was adopted: enough to make it that again, byte for byte. */
interface OriginalService {
  readonly definition: Definition;
  readonly token: Secret;
  readonly secrets: DefinitionSecrets;
}

const SECRET_KIND = 'credentials';
/** By the key of the adoption and not by the service: what an adoption has left must not be taken for that of the next. */
const originalKey = (keyId: string) => `before/${keyId}`;

type Stores = Pick<Services, 'secrets'>;

/** Sealed whole, like the secrets that are in it. */
export async function saveOriginal(keyId: string, service: Service, { secrets }: Stores): Promise<void> {
  const { environment, credentials } = await loadSecrets(toSecretsOwner(service), { secrets });
  await secrets.put(SECRET_KIND, originalKey(keyId), {
    definition: new Secret(JSON.stringify(service.definition)),
    token: service.token,
    environment: pack(environment),
    credentials: pack(credentials),
  });
}

export async function loadOriginal(keyId: string, { secrets }: Stores): Promise<OriginalService | undefined> {
  const record = await secrets.get(SECRET_KIND, originalKey(keyId));
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
export async function copyOriginal(from: string, to: string, { secrets }: Stores): Promise<void> {
  const record = await secrets.get(SECRET_KIND, originalKey(from));
  if (record) await secrets.put(SECRET_KIND, originalKey(to), record.values);
}

export async function deleteOriginal(keyId: string, { secrets }: Stores): Promise<void> {
  await secrets.remove(SECRET_KIND, originalKey(keyId));
}

type Bundle = DefinitionSecrets['environment'];

function pack(bundle: Bundle): Secret {
  return new Secret(JSON.stringify(Object.entries(bundle).map(([name, secret]) => [name, secret.reveal()])));
}

function unpack(packed: Secret): Bundle {
  const entries = JSON.parse(packed.reveal()) as [string, string][];
  return Object.fromEntries(entries.map(([name, value]) => [name, new Secret(value)]));
}

/**
 * Makes the secrets those of a record that was just written. Whoever wrote the record last has the last word about them:
 * their versions are read before the record is looked at, so that a writer who was overtaken in between is refused. For the
 * same reason they are written also when they are the same.
 */
export async function swapSecrets(
  { service, version }: ServiceRecord,
  { environment, credentials }: DefinitionSecrets,
  catalog: Pick<Services, 'services' | 'secrets' | 'now'>,
): Promise<void> {
  const { services, secrets } = catalog;
  const { uid, namespace, definition } = service;
  const secretPlace = `${namespace}/${definition.name}`;
  for (;;) {
    const stored = await secrets.get('service', secretPlace);
    const credentialsStored = await secrets.get('credentials', uid);
    if ((await services.get(definition.name))?.version !== version) return;
    try {
      await secrets.put('service', secretPlace, environment, versionOf(stored));
      await secrets.put('credentials', uid, credentials, versionOf(credentialsStored));
      break;
    } catch (error) {
      if (!isRace(error)) throw error;
    }
  }
  // It may have been removed just now, secrets first looked for before ours were there.
  const current = await services.get(definition.name);
  if (current?.service.uid !== uid) await removeSecrets(toSecretsOwner(service), catalog);
}

const versionOf = (record: SecretRecord | undefined) => record?.version ?? 'absent';
