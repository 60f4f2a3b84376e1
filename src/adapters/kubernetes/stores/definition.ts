import { isMap, isScalar, isSeq, type Node, parseDocument, stringify } from 'yaml';
import { deepFreeze } from '../../../lib/freeze.ts';
import { Secret } from '../../../lib/secret.ts';
import type { Version } from '../../../lib/version.ts';
import {
  blankSecrets,
  type ClusterStore,
  decodeStored,
  type FederationRole,
  ownedBy,
  present,
  type Service,
  type ServiceDocument,
  ServiceSchema,
  withoutClusterStore,
  withoutReservedAnnotations,
  withoutReservedLabels,
} from '../../../model/service/index.ts';
import { type SecretValues, type ServiceRecord, StoreError } from '../../../ports/index.ts';
import type { ConfigMap, Stored } from '../client/kinds.ts';
import { FEDERATION, SERVICE, UID } from '../objects/labels.ts';

/** The keys of the ConfigMap, which the supervisor finds as files (docs/go-manager.md#kubernetes-objects). */
const CONFIG = 'function_config.yaml';
const SCRIPT = 'script.sh';

/** What a ConfigMap may hold, counted by Kubernetes over all its values. */
const CONFIG_MAP_BYTES = 1024 * 1024;

/** Is this the definition of a service, and not just labelled like one? */
export function isDefinition({ data, metadata }: Stored<ConfigMap>): boolean {
  return data?.[CONFIG] !== undefined && metadata.labels?.[SERVICE] === metadata.name;
}

/**
 * A service as the ConfigMap that a Go manager reads and the supervisor mounts (docs/go-manager.md#kubernetes-objects):
 * all keys of the definition but the namespace, what is only shown, and the script, which stands beside. The token is
 * in it in clear, since both look for it there; no other secret is.
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
  const document = decodeStored(ServiceSchema, parse(object)) as ServiceDocument;
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

/** The parts of a schema that say where a text is expected. */
interface Shape {
  type?: string;
  properties?: Record<string, Shape>;
  patternProperties?: Record<string, Shape>;
  items?: Shape;
}

/**
 * Every text in quotes: the Python supervisor reads YAML 1.1, to which a plain `yes` is true and a plain `1:30` is 90;
 * to us and to Go they are texts.
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
 * Reads a definition as another program or a person wrote it. Where the schema has a text, a plain `0.20` or `true` is
 * that text and neither a number nor a truth value.
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
