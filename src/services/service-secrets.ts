import { type Admin, attachGrant, detachGrants, findGrant, type User } from '../identity/index.ts';
import { Secret } from '../lib/secret.ts';
import type { Version } from '../lib/version.ts';
import { type DefinitionSecrets, GRANT_SLOT, REFRESH_TOKEN_SLOT, type Service } from '../model/service/index.ts';
import { isRace, type SecretRecord, type ServiceRecord } from '../ports/index.ts';
import type { Services } from './services.ts';

/** The fields of a service that locate its secrets. */
export type SecretsOwner = Pick<Service, 'uid' | 'namespace'> & { readonly name: string };

export const toSecretsOwner = ({ uid, namespace, definition }: Service): SecretsOwner => ({
  uid,
  namespace,
  name: definition.name,
});

const environmentKey = ({ namespace, name }: SecretsOwner) => `${namespace}/${name}`;

export interface LoadedSecrets extends DefinitionSecrets {
  readonly versions: { readonly environment?: Version; readonly credentials?: Version };
}

export async function loadSecrets(owner: SecretsOwner, { secrets }: Pick<Services, 'secrets'>): Promise<LoadedSecrets> {
  const [environment, credentials] = await Promise.all([
    secrets.get('service', environmentKey(owner)),
    secrets.get('credentials', owner.uid),
  ]);
  return {
    environment: environment?.values ?? {},
    credentials: credentials?.values ?? {},
    versions: { ...toVersion('environment', environment), ...toVersion('credentials', credentials) },
  };
}

/**
 * Writes both bundles, or removes one that is empty: a secret that an earlier service of this name left behind must not
 * attach to this one (R2).
 */
export async function saveSecrets(
  owner: SecretsOwner,
  values: DefinitionSecrets,
  { secrets }: Pick<Services, 'secrets'>,
): Promise<void> {
  const save = async (room: 'service' | 'credentials', key: string, bundle: Readonly<Record<string, Secret>>) => {
    if (Object.keys(bundle).length > 0) await secrets.put(room, key, bundle);
    else await secrets.remove(room, key);
  };
  await Promise.all([
    save('service', environmentKey(owner), values.environment),
    save('credentials', owner.uid, values.credentials),
  ]);
}

/** Loads the secrets for a change. A refresh token that was stored before there was a vault is moved to the vault first. */
export async function loadSecretsForChange(service: Service, catalog: VaultStores): Promise<LoadedSecrets> {
  const stored = await loadSecrets(toSecretsOwner(service), catalog);
  if (!stored.credentials[REFRESH_TOKEN_SLOT]) return stored;
  await findGrant(service, catalog);
  return loadSecrets(toSecretsOwner(service), catalog);
}

/** The secrets to store with a service: a refresh token goes to the vault, and the service keeps the id of its grant. */
export async function vaultSecrets(
  uid: string,
  secrets: DefinitionSecrets,
  bringer: Admin | User,
  catalog: VaultStores,
): Promise<DefinitionSecrets> {
  const { [REFRESH_TOKEN_SLOT]: token, ...credentials } = secrets.credentials;
  if (!token) return secrets;
  const grant = await attachGrant(token, bringer, uid, catalog);
  return { ...secrets, credentials: { ...credentials, [GRANT_SLOT]: new Secret(grant) } };
}

type VaultStores = Pick<Services, 'secrets' | 'now' | 'newUid'>;

/** Detaches the service from grants that it no longer uses; from all grants if the service was removed meanwhile. */
export async function releaseUnusedGrants(
  owner: SecretsOwner,
  catalog: Pick<Services, 'secrets' | 'services' | 'now'>,
): Promise<void> {
  const current = await catalog.services.get(owner.name);
  if (current?.service.uid === owner.uid) await detachGrants(owner.uid, catalog);
  else await removeSecrets(owner, catalog);
}

interface Replacement {
  readonly stored: LoadedSecrets;
  readonly secrets: DefinitionSecrets;
  /** Merges the given secrets with what another writer has stored meanwhile. */
  readonly settle: (stored: LoadedSecrets) => Promise<DefinitionSecrets>;
}

/**
 * Stores the secrets of a definition that was just written. If another writer was faster, either the definition is theirs
 * now, and so are the secrets; or the definition is still ours, and their secrets are merged with ours.
 */
export async function replaceSecrets(
  owner: SecretsOwner,
  { stored, secrets, settle }: Replacement,
  record: ServiceRecord,
  catalog: Pick<Services, 'secrets' | 'services'>,
): Promise<void> {
  if (sameSecrets(stored, secrets)) return;
  try {
    const { environment = 'absent', credentials = 'absent' } = stored.versions;
    await catalog.secrets.put('service', environmentKey(owner), secrets.environment, environment);
    await catalog.secrets.put('credentials', owner.uid, secrets.credentials, credentials);
    if (sameGrant(stored, secrets)) return;
  } catch (error) {
    if (!isRace(error)) throw error;
    const current = await catalog.services.get(owner.name);
    if (current?.version !== record.version) return;
  }
  // A new grant is merged once more too: until the slot named it, another update may have detached it from this service.
  const again = await loadSecrets(owner, catalog);
  await replaceSecrets(owner, { stored: again, secrets: await settle(again), settle }, record, catalog);
}

/**
 * Removes the secrets of a service that is removed, or was never completed. The name is reserved meanwhile, so that no new
 * service of that name, whose secrets have the same location, is created in between. If such a service exists already, the
 * secrets there are its own.
 */
export async function removeSecrets(
  owner: SecretsOwner,
  catalog: Pick<Services, 'secrets' | 'services' | 'now'>,
): Promise<void> {
  await catalog.secrets.remove('credentials', owner.uid);
  await detachGrants(owner.uid, catalog);
  const held = await catalog.services.reserve(owner.name, owner.uid);
  if (held === 'taken') return;
  try {
    await catalog.secrets.remove('service', environmentKey(owner));
  } finally {
    await catalog.services.release(held);
  }
}

/** Whether both have the same grant, or none. */
export function sameGrant(a: DefinitionSecrets, b: DefinitionSecrets): boolean {
  const idIn = ({ credentials }: DefinitionSecrets) => credentials[GRANT_SLOT]?.reveal();
  return idIn(a) === idIn(b);
}

function sameSecrets(a: DefinitionSecrets, b: DefinitionSecrets): boolean {
  return sameBundle(a.environment, b.environment) && sameBundle(a.credentials, b.credentials);
}

function sameBundle(a: Readonly<Record<string, Secret>>, b: Readonly<Record<string, Secret>>): boolean {
  const names = Object.keys(a);
  return names.length === Object.keys(b).length && names.every((name) => b[name]?.equals(a[name] ?? '') === true);
}

function toVersion<K extends string>(key: K, record: SecretRecord | undefined): { [P in K]?: Version } {
  return record ? ({ [key]: record.version } as { [P in K]: Version }) : {};
}
