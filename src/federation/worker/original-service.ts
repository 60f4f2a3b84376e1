import { Secret } from '../../lib/secret.ts';
import type { Definition, DefinitionSecrets, Service } from '../../model/service/index.ts';
import { isRace, type SecretRecord, type ServiceRecord, StoreError } from '../../ports/index.ts';
import { loadSecrets, removeSecrets, type Services, toSecretsOwner } from '../../services/index.ts';

/** What a service was before its adoption: enough to restore it byte for byte. */
interface OriginalService {
  readonly definition: Definition;
  readonly token: Secret;
  readonly secrets: DefinitionSecrets;
}

const SECRET_KIND = 'credentials';
/**
 * Named after the key of the adoption, not after the service: what one adoption left behind must not be used for the next.
 */
const originalKey = (keyId: string) => `before/${keyId}`;

type Stores = Pick<Services, 'secrets'>;

/** Stored as one sealed bundle, because it contains secrets. */
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
    throw new StoreError(
      'damaged',
      `the saved definition of an adopted service is incomplete: restore before/${keyId}`,
    );
  }
  return {
    definition: JSON.parse(definition.reveal()) as Definition,
    token,
    secrets: { environment: unpack(environment), credentials: unpack(credentials) },
  };
}

/** Copies the saved service for another key of the same adoption. */
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
 * Stores the secrets of a record that was just written. The last writer of the record also decides its secrets: the versions
 * of the secrets are read before the record is checked, so a writer that lost the race gets a conflict. For the same reason,
 * equal secrets are written too.
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
  // The service may have been removed just now, and its secrets deleted before ours were written.
  const current = await services.get(definition.name);
  if (current?.service.uid !== uid) await removeSecrets(toSecretsOwner(service), catalog);
}

const versionOf = (record: SecretRecord | undefined) => record?.version ?? 'absent';
