import { isMap, isScalar, isSeq, type Node, parseDocument, stringify } from 'yaml';
import { deepFreeze } from '../../../lib/json.ts';
import { Secret } from '../../../lib/secret.ts';
import type { Version } from '../../../lib/version.ts';
import {
  blankSecrets,
  type ClusterStore,
  decodeStored,
  type FederationRole,
  present,
  type Service,
  type ServiceDocument,
  ServiceSchema,
  storedDefinition,
  withoutClusterStore,
  withoutReservedAnnotations,
  withoutReservedLabels,
} from '../../../model/service/index.ts';
import { type SecretValues, type ServiceRecord, StoreError } from '../../../ports/index.ts';
import type { ConfigMap, Stored } from '../client/kinds.ts';
import { FEDERATION, SERVICE, SERVICE_UID_ANNOTATION } from '../objects/labels.ts';

/** Keys of the ConfigMap; the Go manager's supervisor reads them as files (docs/go-manager.md#kubernetes-objects). */
const CONFIG = 'function_config.yaml';
const SCRIPT = 'script.sh';

/** Kubernetes' limit for all values of a ConfigMap together. */
const CONFIG_MAP_BYTES = 1024 * 1024;

/** Whether the ConfigMap defines a service; the label alone does not suffice. */
export function isDefinition({ data, metadata }: Stored<ConfigMap>): boolean {
  return data?.[CONFIG] !== undefined && metadata.labels?.[SERVICE] === metadata.name;
}

/**
 * The ConfigMap of a service, as a Go manager reads it and its supervisor mounts it (docs/go-manager.md#kubernetes-objects):
 * all keys of the definition except the namespace, read-only keys, and the script, which is a key of its own. The token is
 * in clear text, because both read it there; no other secret is.
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
      `the definition of "${name}" with its script has ${size} bytes, and Kubernetes stores at most ${CONFIG_MAP_BYTES}: ` +
        'put the script into the image',
    );
  }
  return {
    metadata: {
      name,
      namespace: service.namespace,
      labels: { [SERVICE]: name },
      annotations: {
        [SERVICE_UID_ANNOTATION]: service.uid,
        ...(service.federation && { [FEDERATION]: JSON.stringify(service.federation) }),
      },
    },
    data,
  };
}

/**
 * The service that a ConfigMap defines. What a Go manager accepted is not rejected here, but an invalid visibility counts
 * as private: the Go manager would open buckets for it (S11).
 */
export function fromConfigMap(object: Stored<ConfigMap>): ServiceRecord {
  const { name, namespace = '', uid, resourceVersion, annotations } = object.metadata;
  const document = decodeStored(ServiceSchema, parse(object)) as ServiceDocument;
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
    uid: annotations?.[SERVICE_UID_ANNOTATION] ?? uid,
    owner,
    ownerName: labels['owner_name'] ?? '',
    namespace,
    token: secret,
    definition: deepFreeze(storedDefinition(blank, owner, bucket_list)),
    ...roleIn(annotations?.[FEDERATION]),
  };
  return Object.freeze({ service: Object.freeze(service), version: resourceVersion as Version });
}

/**
 * The keys of storage providers and clusters that a Go manager stored in clear text in a definition, by slot; undefined if
 * there are none. Definitions of this manager never contain any.
 */
export function credentialsIn(object: Stored<ConfigMap>): SecretValues | undefined {
  if (object.metadata.annotations?.[SERVICE_UID_ANNOTATION] !== undefined) return undefined;
  const document = decodeStored(ServiceSchema, parse(object)) as ServiceDocument;
  const { storage_providers: given, ...rest } = document;
  const providers = withoutClusterStore(given);
  const { secrets } = blankSecrets({ ...rest, ...(providers && { storage_providers: providers }) });
  return Object.keys(secrets.credentials).length > 0 ? secrets.credentials : undefined;
}

/** Only the manager writes this annotation; one that cannot be parsed counts as absent. */
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

/** The parts of a schema that say where a string is expected. */
interface Shape {
  type?: string;
  properties?: Record<string, Shape>;
  patternProperties?: Record<string, Shape>;
  items?: Shape;
}

/**
 * Quotes every string: the Python supervisor reads YAML 1.1, where a plain `yes` is true and a plain `1:30` is 90. For this
 * manager and for Go they are strings.
 */
function writeYaml(document: unknown): string {
  return stringify(document, {
    lineWidth: 0,
    defaultStringType: 'QUOTE_DOUBLE',
    defaultKeyType: 'PLAIN',
    compat: 'yaml-1.1',
    aliasDuplicateObjects: false,
  });
}

/**
 * Reads a definition that another program or a person may have written. Where the schema has a string, a plain `0.20` or
 * `true` is that string, not a number or a boolean.
 */
function readYaml(text: string): unknown {
  const document = parseDocument(text, { uniqueKeys: false, stringKeys: true, logLevel: 'silent' });
  const [broken] = document.errors;
  if (broken) throw new SyntaxError(broken.message.split('\n')[0] ?? 'unreadable');
  const toJs = (node: Node) => node.toJS(document, { maxAliasCount: 100 });

  const convert = (node: unknown, shape: Shape | undefined): unknown => {
    if (isMap(node) && shape?.type === 'object') {
      const [anyValue] = Object.values(shape.patternProperties ?? {});
      const entries = node.items.map(({ key, value }) => {
        const name = String(isScalar(key) ? key.value : key);
        return [name, convert(value, shape.properties?.[name] ?? anyValue)];
      });
      return Object.fromEntries(entries);
    }
    if (isSeq(node) && shape?.type === 'array') return node.items.map((item) => convert(item, shape.items));
    if (isScalar(node) && shape?.type === 'string' && node.value !== null) {
      return typeof node.value === 'string' ? node.value : node.source;
    }
    return node === null || node === undefined ? undefined : toJs(node as Node);
  };
  return convert(document.contents, ServiceSchema);
}
