import { randomUUID } from 'node:crypto';
import { Secret } from '../../../lib/secret.ts';
import type { Version } from '../../../lib/version.ts';
import {
  GRANT_SLOT,
  REFRESH_TOKEN_SLOT,
  readDefinition,
  type Service,
  settleSecrets,
} from '../../../model/service/index.ts';
import {
  type Journal,
  type JournalState,
  packState,
  type SecretKind,
  type SecretStore,
  type SecretValues,
  type ServiceRecord,
  type ServiceStore,
  StoreError,
} from '../../../ports/index.ts';
import type { OwnServices } from '../coordination.ts';

/** The process has crashed: its calls have no effect any more. */
export class Crash extends Error {}

/** Sits between a coordinator and the world: every write and every request passes through it, as a function that performs it. */
export interface Passage {
  write<T>(effect: () => T): T;
  request<T>(cluster: string, call: string, effect: () => T): T;
}

export const openPassage: Passage = { write: (effect) => effect(), request: (_cluster, _call, effect) => effect() };

let versions = 0;
export const newVersion = () => String(++versions) as Version;

/** The stores of the coordinator's cluster, in memory. They outlive the process. */
export class ModelCluster {
  readonly journal = new Map<string, { state: string; version: Version }>();
  readonly secrets = new Map<string, { values: SecretValues; version: Version }>();
  readonly services = new Map<string, ServiceRecord>();
}

export function journalOf(cluster: ModelCluster, passage: Passage): Journal {
  const expect = (key: string, expected: Version) => {
    const entry = cluster.journal.get(key);
    if (!entry) throw new StoreError('absent', key);
    if (entry.version !== expected) throw new StoreError('conflict', key);
  };
  const put = (key: string, state: JournalState) => {
    const version = newVersion();
    cluster.journal.set(key, { state: packState(key, state), version });
    return version;
  };
  const entryOf = (key: string) => {
    const { state, version } = cluster.journal.get(key) ?? { state: '{}', version: newVersion() };
    return { key, state: JSON.parse(state) as JournalState, version };
  };
  return {
    begin: async (key, state) =>
      passage.write(() => {
        if (cluster.journal.has(key)) throw new StoreError('exists', key);
        return { key, state, version: put(key, state) };
      }),
    read: async (key) => (cluster.journal.has(key) ? entryOf(key) : undefined),
    claim: async (key, expected) =>
      passage.write(() => {
        const entry = cluster.journal.get(key);
        if (entry?.version !== expected) return 'busy';
        entry.version = newVersion();
        return entry.version;
      }),
    advance: async (key, expected, state) =>
      passage.write(() => {
        expect(key, expected);
        return put(key, state);
      }),
    finish: async (key, expected) =>
      passage.write(() => {
        expect(key, expected);
        cluster.journal.delete(key);
      }),
    list: async (prefix) => ({
      items: [...cluster.journal.keys()]
        .filter((key) => key.startsWith(prefix))
        .toSorted()
        .map(entryOf),
    }),
  };
}

export function secretsOf(cluster: ModelCluster, passage: Passage): SecretStore {
  const at = (room: SecretKind, key: string) => `${room} ${key}`;
  return {
    get: async (room, key) => cluster.secrets.get(at(room, key)),
    put: async (room, key, values) =>
      passage.write(() => {
        const version = newVersion();
        cluster.secrets.set(at(room, key), { values, version });
        return version;
      }),
    remove: async (room, key) => passage.write(() => void cluster.secrets.delete(at(room, key))),
    keys: async (room) => ({
      items: [...cluster.secrets.keys()]
        .filter((key) => key.startsWith(`${room} `))
        .map((key) => key.slice(room.length + 1)),
    }),
  };
}

type Parts = Pick<ServiceStore, 'get' | 'getFresh' | 'list' | 'replace'>;

export function servicesOf(cluster: ModelCluster, passage: Passage): ServiceStore {
  const parts: Parts = {
    get: async (name) => cluster.services.get(name),
    getFresh: async (name) => cluster.services.get(name),
    list: async () => ({ items: [...cluster.services.values()] }),
    replace: async (service, expected) =>
      passage.write(() => {
        const current = cluster.services.get(service.definition.name);
        if (!current) throw new StoreError('absent', service.definition.name);
        if (current.version !== expected) throw new StoreError('conflict', service.definition.name);
        return putService(cluster, service);
      }),
  };
  return parts as ServiceStore;
}

function putService(cluster: ModelCluster, service: Service): ServiceRecord {
  const record = { service, version: newVersion() };
  cluster.services.set(service.definition.name, record);
  return record;
}

/** The operations of the services module. Each is one write here: its own tests cover its crashes. */
export function ownServicesOf(cluster: ModelCluster, passage: Passage): OwnServices {
  /** A refresh token goes to the vault, and the service keeps the id of its grant. */
  const vaulted = ({ [REFRESH_TOKEN_SLOT]: token, ...credentials }: SecretValues): SecretValues =>
    token ? { ...credentials, [GRANT_SLOT]: new Secret('grant') } : credentials;
  const keep = ({ namespace, definition, uid }: Service, environment: SecretValues, credentials: SecretValues) => {
    cluster.secrets.set(`service ${namespace}/${definition.name}`, { values: environment, version: newVersion() });
    cluster.secrets.set(`credentials ${uid}`, { values: vaulted(credentials), version: newVersion() });
  };
  const valuesAt = (key: string) => cluster.secrets.get(key)?.values ?? {};
  return {
    plan: async (_principal, body) => {
      const { definition } = readDefinition(body);
      if (cluster.services.has(definition.name)) throw new StoreError('exists', definition.name);
      return definition;
    },
    create: async (_principal, body, federation) =>
      passage.write(() => {
        const { definition, secrets } = readDefinition(body);
        if (cluster.services.has(definition.name)) throw new StoreError('exists', definition.name);
        const service = {
          uid: randomUUID(),
          definition,
          owner: 'alice',
          ownerName: 'Alice',
          namespace: 'svc',
          token: new Secret('t'),
          federation,
        };
        keep(service, secrets.environment, secrets.credentials);
        return putService(cluster, service);
      }),
    update: async (_principal, given, expected, federation) =>
      passage.write(() => {
        const current = cluster.services.get(given.definition.name);
        if (current?.version !== expected) throw new StoreError('conflict', given.definition.name);
        const { service: before } = current;
        const stored = {
          environment: valuesAt(`service ${before.namespace}/${before.definition.name}`),
          credentials: valuesAt(`credentials ${before.uid}`),
        };
        const { secrets } = settleSecrets(given.definition, given.secrets, {
          definition: before.definition,
          secrets: stored,
        });
        keep(before, secrets.environment, secrets.credentials);
        return putService(cluster, { ...before, definition: given.definition, ...(federation && { federation }) });
      }),
    remove: async ({ uid, namespace, definition }) =>
      passage.write(() => {
        if (cluster.services.get(definition.name)?.service.uid !== uid) return;
        cluster.services.delete(definition.name);
        cluster.secrets.delete(`service ${namespace}/${definition.name}`);
        cluster.secrets.delete(`credentials ${uid}`);
      }),
  };
}
