import { Secret } from '../../lib/secret.ts';
import type { Problem } from './codec.ts';
import type { DefinedCluster, Federation, Replica, ServiceDocument, StorageProviders } from './schema.ts';
import type { Definition } from './service.ts';

/**
 * Secrets are separated from a definition when it is read: their values go to the secret store, and the definition keeps a
 * blank (for environment secrets, cluster passwords and member headers) or the word `hidden` (for keys of storage
 * providers, as the Go manager shows them). A client may PUT what it got from a GET: a blank or `hidden` keeps the stored
 * value (R3).
 */
export interface DefinitionSecrets {
  /** `environment.secrets`, by name. These reach the script. */
  readonly environment: Readonly<Record<string, Secret>>;
  /**
   * All other secrets, by slot: `clusters/<id>/auth_password`. No script gets them. A refresh token is here only until it is
   * in the vault of grants; what is stored is {@link GRANT_SLOT}.
   */
  readonly credentials: Readonly<Record<string, Secret>>;
}

/** Replaces the key of a storage provider in a definition. */
export const HIDDEN = 'hidden';

/** The fields of storage providers that are keys. */
const PROVIDER_KEYS: Record<keyof StorageProviders, readonly string[]> = {
  s3: ['access_key', 'secret_key'],
  minio: ['access_key', 'secret_key'],
  onedata: ['token'],
  webdav: ['password'],
  rucio: ['refresh_token'],
};

const headerSlot = ({ type, cluster_id, service_name, url }: Replica, header: string) =>
  `members/${type}/${cluster_id}/${service_name}/${url}/${header}`;

/** The headers to send to a member, with their values from the secret store. */
export function memberHeaders(
  member: Replica,
  credentials: DefinitionSecrets['credentials'],
): Readonly<Record<string, Secret>> {
  const found = Object.keys(member.headers).map((header) => [header, credentials[headerSlot(member, header)]] as const);
  return Object.fromEntries(found.filter((entry): entry is readonly [string, Secret] => entry[1] !== undefined));
}

/** The slot of a key of a provider, such as `minio.archive`, among the credentials. */
export const providerSlot = (provider: string, field: string) => `providers/${provider}/${field}`;

/** A credential in a definition. */
interface Slot {
  readonly key: string;
  readonly path: string;
  readonly value: string;
  /** To whom the credential is sent. A stored credential is kept only while the target stays the same. */
  readonly target: string;
  readonly hidden: boolean;
  /** The slot of what is stored in exchange for it, if it is not stored itself. That is kept for every target. */
  readonly keptAs?: string;
}

export function blankSecrets<
  D extends Pick<ServiceDocument, 'environment' | 'storage_providers' | 'clusters' | 'federation'>,
>(document: D): { blank: D; secrets: DefinitionSecrets } {
  const { environment, storage_providers, clusters, federation } = document;
  const blank: D = {
    ...document,
    environment: { ...environment, secrets: mapValues(environment.secrets, () => '') },
    ...(storage_providers && { storage_providers: blankProviders(storage_providers) }),
    ...(clusters && {
      clusters: mapValues(clusters, (cluster): DefinedCluster => ({ ...cluster, auth_password: '' })),
    }),
    ...(federation && { federation: blankMembers(federation) }),
  };
  const given = secretSlots(document).filter(({ value, hidden }) => value !== '' && !(hidden && value === HIDDEN));
  return {
    blank,
    secrets: {
      environment: Object.fromEntries(
        Object.entries(environment.secrets)
          .filter(([name]) => !isVaulted(document, name))
          .map(([name, value]) => [name, new Secret(value)]),
      ),
      credentials: Object.fromEntries(given.map(({ key, value }) => [key, new Secret(value)])),
    },
  };
}

/** The refresh token of a federated service is written among its secrets, but no pod ever gets it (F36). */
export const REFRESH_TOKEN = 'refresh_token';

/** The slot of a refresh token from a request body, until it is in the vault of grants. */
export const REFRESH_TOKEN_SLOT = `federation/${REFRESH_TOKEN}`;

/** The slot of the id of the service's grant. */
export const GRANT_SLOT = 'federation/grant';

function isVaulted(document: Pick<ServiceDocument, 'federation'>, name: string): boolean {
  return name === REFRESH_TOKEN && document.federation !== undefined;
}

/** What is stored before an update. */
export interface StoredSecrets {
  readonly definition: Definition;
  readonly secrets: DefinitionSecrets;
}

/**
 * The secrets to store: those of the body, and for its blanks the stored ones. A `hidden` key for which nothing is stored is
 * a problem: the client copied it from another definition.
 */
export function settleSecrets(
  definition: Definition,
  given: DefinitionSecrets,
  stored: StoredSecrets | undefined,
): { secrets: DefinitionSecrets; problems: Problem[] } {
  const { vaulted, environment } = settleEnvironment(definition, given, stored);
  const before = new Map(stored ? secretSlots(stored.definition).map((slot) => [slot.key, slot.target]) : []);
  const credentials: [string, Secret][] = [];
  const problems: Problem[] = [];
  for (const { key, path, value, target, hidden, keptAs = key } of secretSlots(definition)) {
    const brought = own(given.credentials, key) ?? own(vaulted, key);
    const isForSame = keptAs !== key || before.get(key) === target;
    const kept = isForSame ? own(stored?.secrets.credentials, keptAs) : undefined;
    const secret = brought ?? (hidden && value === '' ? undefined : kept);
    if (secret) credentials.push([brought ? key : keptAs, secret]);
    else if (hidden && value === HIDDEN) {
      problems.push({
        path,
        message: 'give the key itself: "hidden" keeps a stored one, and none is stored for this address',
      });
    }
  }
  return { secrets: { environment, credentials: Object.fromEntries(credentials) }, problems };
}

/**
 * The secrets that the script gets. Without a federation, `refresh_token` is one of them. As soon as the service has a
 * federation, it is moved to the vault as every refresh token is.
 */
function settleEnvironment(definition: Definition, given: DefinitionSecrets, stored: StoredSecrets | undefined) {
  const names = new Set([...Object.keys(given.environment), ...Object.keys(definition.environment.secrets)]);
  const settled = [...names].flatMap((name): [string, Secret][] => {
    const [value, kept] = [own(given.environment, name), own(stored?.secrets.environment, name)];
    const secret = kept && (!value || value.equals('')) ? kept : value;
    return secret ? [[name, secret]] : [];
  });
  const listed = Object.hasOwn(definition.environment.secrets, REFRESH_TOKEN);
  const token =
    own(Object.fromEntries(settled), REFRESH_TOKEN) ??
    (listed ? own(stored?.secrets.environment, REFRESH_TOKEN) : undefined);
  const isBrought = token && !token.equals('') && isVaulted(definition, REFRESH_TOKEN);
  return {
    vaulted: isBrought ? { [REFRESH_TOKEN_SLOT]: token } : {},
    environment: Object.fromEntries(settled.filter(([name]) => !isVaulted(definition, name))),
  };
}

function secretSlots(
  document: Pick<ServiceDocument, 'environment' | 'storage_providers' | 'clusters' | 'federation'>,
): Slot[] {
  const slots: Slot[] = [];
  // Also when the body does not name the secret: the grant is kept as long as a federation needs it.
  if (isVaulted(document, REFRESH_TOKEN)) {
    const path = `environment.secrets.${REFRESH_TOKEN}`;
    const value = own(document.environment.secrets, REFRESH_TOKEN) ?? '';
    slots.push({ key: REFRESH_TOKEN_SLOT, path, value, target: '', hidden: false, keptAs: GRANT_SLOT });
  }
  for (const [type, fields] of Object.entries(PROVIDER_KEYS)) {
    const providers = document.storage_providers?.[type as keyof StorageProviders] ?? {};
    for (const [id, provider] of Object.entries(providers as Record<string, Record<string, unknown>>)) {
      const target = Object.entries(provider)
        .filter(([field]) => /host|endpoint/.test(field))
        .map(([, value]) => value)
        .join(' ');
      for (const field of fields) {
        const path = `storage_providers.${type}.${id}.${field}`;
        slots.push({
          key: providerSlot(`${type}.${id}`, field),
          path,
          value: String(provider[field]),
          target,
          hidden: true,
        });
      }
    }
  }
  for (const [id, { endpoint, auth_user, auth_password }] of Object.entries(document.clusters ?? {})) {
    slots.push({
      key: `clusters/${id}/auth_password`,
      path: `clusters.${id}.auth_password`,
      value: auth_password,
      target: `${endpoint} ${auth_user}`,
      hidden: false,
    });
  }
  for (const [index, member] of (document.federation?.members ?? []).entries()) {
    for (const [header, value] of Object.entries(member.headers)) {
      slots.push({
        key: headerSlot(member, header),
        path: `federation.members[${index}].headers.${header}`,
        value,
        target: `${member.cluster_id} ${member.url}`,
        hidden: false,
      });
    }
  }
  return slots;
}

function blankProviders(providers: StorageProviders): StorageProviders {
  return Object.fromEntries(
    Object.entries(providers).map(([type, byId]) => {
      const fields = PROVIDER_KEYS[type as keyof StorageProviders];
      return [type, mapValues(byId as Record<string, Record<string, unknown>>, (provider) => hide(provider, fields))];
    }),
  );
}

function hide(provider: Record<string, unknown>, fields: readonly string[]): Record<string, unknown> {
  return mapEntries(provider, ([field, value]) => [field, fields.includes(field) && value !== '' ? HIDDEN : value]);
}

function blankMembers(federation: Federation): Federation {
  const { members } = federation;
  if (!members) return federation;
  return {
    ...federation,
    members: members.map((member) => ({ ...member, headers: mapValues(member.headers, () => '') })),
  };
}

function mapEntries<T, U>(
  map: Readonly<Record<string, T>>,
  change: (entry: [string, T]) => [string, U],
): Record<string, U> {
  return Object.fromEntries(Object.entries(map).map(change));
}

function mapValues<T, U>(map: Readonly<Record<string, T>>, change: (value: T) => U): Record<string, U> {
  return mapEntries(map, ([key, value]) => [key, change(value)]);
}

function own<T>(map: Readonly<Record<string, T>> | undefined, key: string): T | undefined {
  return map && Object.hasOwn(map, key) ? map[key] : undefined;
}
