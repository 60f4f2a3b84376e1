import { Secret } from '../../base/secret.ts';
import { decode } from '../../service/codec.ts';
import {
  type ClusterStore,
  type FederationRole,
  ownedBy,
  present,
  type Service,
  ServiceSchema,
} from '../../service/index.ts';
import { withoutReservedAnnotations, withoutReservedLabels } from '../../service/labels.ts';
import { withoutClusterStore } from '../../service/providers.ts';
import type { ServiceDocument } from '../../service/schema.ts';
import { blankSecrets } from '../../service/secrets.ts';
import { StoreError } from '../errors.ts';
import { deepFreeze } from '../freeze.ts';
import type { SecretValues } from '../secret-store.ts';
import type { ServiceRecord } from '../service-store.ts';
import type { Version } from '../version.ts';
import type { ConfigMap, Stored } from './api/kinds.ts';
import { FEDERATION, SERVICE, UID } from './marks.ts';
import { readYaml, writeYaml } from './yaml-document.ts';

/** The keys of the ConfigMap, which the supervisor finds as files (contract §3.2). */
const CONFIG = 'function_config.yaml';
const SCRIPT = 'script.sh';

/** What a ConfigMap may hold, counted by Kubernetes over all its values. */
const CONFIG_MAP_BYTES = 1024 * 1024;

/** Is this the definition of a service, and not just labelled like one? */
export function isDefinition({ data, metadata }: Stored<ConfigMap>): boolean {
  return data?.[CONFIG] !== undefined && metadata.labels?.[SERVICE] === metadata.name;
}

/**
 * A service as the ConfigMap that a Go manager reads and the supervisor mounts (contract §3.2): all keys of the
 * definition but the namespace, what is only shown, and the script, which stands beside. The token is in it in clear,
 * since both look for it there; no other secret is.
 */
export function toConfigMap(service: Service, store: ClusterStore): ConfigMap {
  const { name } = service.definition;
  const shown = present(service, { store, showToken: true }) as ServiceDocument;
  const { namespace, volume_status, deployment, script, ...document } = shown;
  const data = { [CONFIG]: writeYaml(document), [SCRIPT]: script };
  const size = Object.values(data).reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  if (size > CONFIG_MAP_BYTES) {
    throw new StoreError(
      'too-large',
      `the definition of "${name}" has ${size} bytes with its script, and ${CONFIG_MAP_BYTES} is the most that ` +
        'Kubernetes keeps: put the script into the image',
    );
  }
  return {
    metadata: {
      name,
      namespace: service.namespace,
      labels: { [SERVICE]: name },
      annotations: {
        [UID]: service.uid,
        ...(service.federation && { [FEDERATION]: JSON.stringify(service.federation) }),
      },
    },
    data,
  };
}

/**
 * The service that a ConfigMap defines, whoever wrote it. What a Go manager let through is not refused here: only a
 * visibility that is none counts as private, since upstream opens buckets for it (S11).
 */
export function fromConfigMap(object: Stored<ConfigMap>): ServiceRecord {
  const { name, namespace = '', uid, resourceVersion, annotations } = object.metadata;
  const document = decode(ServiceSchema, parse(object), []) as ServiceDocument;
  const { token, owner, namespace: _, bucket_list, volume_status, deployment, ...given } = document;
  const { storage_providers, labels, visibility, ...rest } = given;
  const providers = withoutClusterStore(storage_providers);
  const { blank } = blankSecrets({
    ...rest,
    name,
    script: object.data?.[SCRIPT] ?? '',
    labels: withoutReservedLabels(labels),
    annotations: withoutReservedAnnotations(given.annotations),
    visibility: ['private', 'restricted', 'public'].includes(visibility) ? visibility : 'private',
    ...(providers && { storage_providers: providers }),
  });
  const secret = new Secret(token);
  Object.freeze(secret);
  const service: Service = {
    uid: annotations?.[UID] ?? uid,
    owner,
    ownerName: labels['owner_name'] ?? '',
    namespace,
    token: secret,
    definition: deepFreeze(ownedBy(blank, owner)),
    ...roleIn(annotations?.[FEDERATION]),
  };
  return Object.freeze({ service: Object.freeze(service), version: resourceVersion as Version });
}

/**
 * The keys of storage providers and clusters that a Go manager left in clear in a definition, by slot. One that this
 * manager has written has none; undefined where there are none.
 */
export function credentialsIn(object: Stored<ConfigMap>): SecretValues | undefined {
  if (object.metadata.annotations?.[UID] !== undefined) return undefined;
  const document = decode(ServiceSchema, parse(object), []) as ServiceDocument;
  const { storage_providers: given, ...rest } = document;
  const providers = withoutClusterStore(given);
  const { secrets } = blankSecrets({ ...rest, ...(providers && { storage_providers: providers }) });
  return Object.keys(secrets.credentials).length > 0 ? secrets.credentials : undefined;
}

/** Only the manager writes it; what somebody else has made of it counts as nothing. */
function roleIn(annotation: string | undefined): Pick<Service, 'federation'> {
  if (annotation === undefined) return {};
  try {
    return { federation: deepFreeze(JSON.parse(annotation) as FederationRole) };
  } catch {
    return {};
  }
}

function parse(object: Stored<ConfigMap>): unknown {
  const { name, namespace } = object.metadata;
  const damaged = (reason: string, cause?: unknown) =>
    new StoreError('damaged', `the ConfigMap ${name} in namespace ${namespace} does not define a service: ${reason}`, {
      cause,
    });
  try {
    const document = readYaml(object.data?.[CONFIG] ?? '');
    if (typeof document === 'object' && document !== null && !Array.isArray(document)) return document;
  } catch (cause) {
    throw damaged(cause instanceof Error ? cause.message : 'unreadable', cause);
  }
  throw damaged(`${CONFIG} is not a map`);
}
