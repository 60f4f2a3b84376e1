import { isObject } from '../../lib/fields.ts';
import { decode, type Problem } from './codec.ts';
import { invalidDefinition } from './errors.ts';
import { DELEGATE_WHEN, DEPLOYMENTS, OUTPUT_RULES, POLICY_NAMES, TOPOLOGIES } from './federation-options.ts';
import {
  clusterIdProblem,
  imageProblem,
  labelKeyProblem,
  labelValueProblem,
  serviceNameProblem,
  variableNameProblem,
  withoutReservedAnnotations,
  withoutReservedLabels,
} from './names.ts';
import { bytes, millicores } from './quantity.ts';
import { type Federation, type Replica, type ServiceDocument, ServiceSchema, type StorageIO } from './schema.ts';
import { blankSecrets, type DefinitionSecrets, REFRESH_TOKEN } from './secrets.ts';
import type { Definition } from './service.ts';
import {
  bucketProblem,
  folderCountProblem,
  folderProblem,
  hasBuckets,
  isClusterStore,
  normalisePath,
  parseProvider,
  splitPath,
  withoutClusterStore,
} from './storage.ts';

interface ReadDefinition {
  readonly definition: Definition;
  /** The secrets in the body; `settleSecrets` determines those to store. */
  readonly secrets: DefinitionSecrets;
}

/**
 * Reads the body of a create or an update into a definition in canonical form. Throws with all problems, not only the first.
 * Keys that the manager sets (owner, namespace, token, reserved labels and annotations) are ignored (F33).
 */
export function readDefinition(body: unknown): ReadDefinition {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw invalidDefinition([{ path: '', message: 'the body must be a JSON object that defines a service' }]);
  }
  const problems: Problem[] = [];
  const decoded = decode(ServiceSchema, body, problems) as ServiceDocument;
  const document = withTopLevelToken(decoded, body, problems);
  const canonical = canonicalise(document, problems);
  if (problems.length > 0) throw invalidDefinition(problems);
  const { blank, secrets } = blankSecrets(canonical);
  return { definition: blank, secrets };
}

/**
 * A refresh token may also be written as `secrets.refresh_token` beside `environment`. It is the same secret as
 * `environment.secrets.refresh_token`.
 */
function withTopLevelToken(document: ServiceDocument, body: object, problems: Problem[]): ServiceDocument {
  const [, secrets] = Object.entries(body).find(([key]) => key.toLowerCase() === 'secrets') ?? [];
  if (secrets === undefined || secrets === null) return document;
  const report = (path: string, message: string) => void problems.push({ path, message });
  if (!isObject(secrets)) {
    report('secrets', 'must be an object with refresh_token');
    return document;
  }
  for (const name of Object.keys(secrets).filter((each) => each !== REFRESH_TOKEN)) {
    report(`secrets.${name}`, `is not read here: write it under environment.secrets.${name}`);
  }
  const { environment } = document;
  const token = secrets[REFRESH_TOKEN];
  if (token === undefined) return document;
  const nested = environment.secrets[REFRESH_TOKEN] ?? '';
  if (typeof token !== 'string') report(`secrets.${REFRESH_TOKEN}`, 'must be a string');
  else if (nested === '' || nested === token)
    return {
      ...document,
      environment: { ...environment, secrets: { ...environment.secrets, [REFRESH_TOKEN]: token } },
    };
  else report(`secrets.${REFRESH_TOKEN}`, `differs from environment.secrets.${REFRESH_TOKEN}: write one of them`);
  return document;
}

function canonicalise(document: ServiceDocument, problems: Problem[]): Definition {
  const { token, owner, namespace, bucket_list, volume_status, deployment, ...given } = document;
  const report = (path: string, message: string | undefined) => {
    if (message !== undefined) problems.push({ path, message });
  };
  report('name', serviceNameProblem(given.name));
  report('image', imageProblem(given.image));
  if (given.script.trim() === '') report('script', 'is required');
  if (given.cluster_id !== '') report('cluster_id', clusterIdProblem(given.cluster_id));
  checkQuantities(given, report);
  checkNames(given, report);
  for (const id of Object.keys(given.clusters ?? {})) report(`clusters.${id}`, clusterIdProblem(id));

  const { storage_providers, federation, ...rest } = given;
  const providers = withoutClusterStore(storage_providers);
  const canonical = {
    ...rest,
    log_level: checkOneOf('log_level', given.log_level, given.log_level.toUpperCase(), report),
    visibility: checkOneOf('visibility', given.visibility, given.visibility, report),
    isolation_level: checkOneOf('isolation_level', given.isolation_level, given.isolation_level.toUpperCase(), report),
    input: given.input.map((io, index) => readStorageIO(io, given.name, `input[${index}]`, report)),
    output: given.output.map((io, index) => readStorageIO(io, given.name, `output[${index}]`, report)),
    script: given.script.replace(/\r\n?/g, '\n'),
    allowed_users: [...new Set(given.allowed_users.map((uid) => uid.trim()).filter((uid) => uid !== ''))],
    labels: withoutReservedLabels(given.labels),
    annotations: withoutReservedAnnotations(given.annotations),
    ...(providers && { storage_providers: providers }),
    ...(federation && { federation: readFederation(federation, given.name, report) }),
  };
  report('isolation_level', folderCountProblem(canonical));
  report('federation.outputs', protectedOutputsProblem(canonical));
  return canonical;
}

type Report = (path: string, message: string | undefined) => void;

/** Rejects a value outside the schema's list, which would open buckets to all users (S11) or be ignored later. */
function checkOneOf(
  key: 'log_level' | 'visibility' | 'isolation_level',
  written: string,
  value: string,
  report: Report,
): string {
  const { enum: allowed = [] } = ServiceSchema.properties[key] as { enum?: string[] };
  if (!allowed.includes(value)) {
    report(key, `"${written}" is not one of ${allowed.filter((item) => item !== '').join(', ')}`);
  }
  return value;
}

/** No program runs in less: the user probably forgot the unit. */
const LEAST_MEMORY = 1024 * 1024;

function checkQuantities(
  given: Pick<Definition, 'cpu' | 'memory' | 'ephemeral_storage_request'>,
  report: Report,
): void {
  const quantities = [
    ['cpu', millicores(given.cpu), 'like 0.5 or 500m'],
    ['memory', bytes(given.memory), 'like 256Mi or 1.5Gi'],
    ...(given.ephemeral_storage_request === ''
      ? []
      : [['ephemeral_storage_request', bytes(given.ephemeral_storage_request), 'like 1Gi'] as const]),
  ] as const;
  for (const [key, amount, example] of quantities) {
    if (amount === undefined) report(key, `"${given[key].slice(0, 80)}" is not a quantity ${example}`);
    else if (amount <= 0) report(key, 'must be above zero: a limit of zero would mean none');
    else if (key === 'memory' && amount < LEAST_MEMORY) {
      report(key, `"${given.memory}" is ${amount} bytes, in which nothing runs: did you mean ${given.memory}Mi?`);
    }
  }
}

function checkNames(given: Pick<Definition, 'environment' | 'labels' | 'annotations'>, report: Report): void {
  for (const kind of ['variables', 'secrets'] as const) {
    for (const name of Object.keys(given.environment[kind])) {
      report(`environment.${kind}.${name}`, variableNameProblem(name));
    }
  }
  for (const [key, value] of Object.entries(withoutReservedLabels(given.labels))) {
    report(`labels.${key}`, labelKeyProblem(key) ?? labelValueProblem(value));
  }
  for (const key of Object.keys(given.annotations)) report(`annotations.${key}`, labelKeyProblem(key));
}

const PROVIDER_TYPES = ['minio', 's3', 'onedata', 'webdav', 'rucio'];

function readStorageIO(io: StorageIO, serviceName: string, path: string, report: Report): StorageIO {
  const provider = parseProvider(io.storage_provider);
  if (io.storage_provider === '') report(`${path}.storage_provider`, 'is required, for instance minio.default');
  else if (!PROVIDER_TYPES.includes(provider.type)) {
    report(`${path}.storage_provider`, `"${provider.type}" is not one of ${PROVIDER_TYPES.join(', ')}`);
  }
  const normalised = normalisePath(io.path, provider, serviceName);
  if (normalised === '') report(`${path}.path`, 'is empty');
  else if (hasBuckets(provider)) {
    const { bucket, folder } = splitPath(normalised);
    report(`${path}.path`, bucketProblem(bucket) ?? folderProblem(folder));
  } else report(`${path}.path`, folderProblem(normalised));
  return { ...io, path: normalised };
}

/**
 * The federation block in canonical form (docs/fdl.md#the-federation-block). The topology is kept as written.
 */
function readFederation(given: Federation, serviceName: string, report: Report): Federation {
  const { token_sharing, ...federation } = given;
  const path = 'federation';
  if (token_sharing !== undefined) {
    report(`${path}.token_sharing`, 'is refused: a refresh token has one holder, the manager of the coordinator');
  }
  check(`${path}.topology`, federation.topology.toLowerCase(), TOPOLOGIES, report);
  const delegation = federation.delegation?.trim().toLowerCase();
  if (delegation !== undefined) check(`${path}.delegation`, delegation, POLICY_NAMES, report);
  if (federation.deployment !== undefined) {
    check(`${path}.deployment`, federation.deployment, DEPLOYMENTS, report);
  }
  if (federation.delegate_when !== undefined) {
    check(`${path}.delegate_when`, federation.delegate_when, DELEGATE_WHEN, report);
  }
  if (federation.outputs !== undefined) check(`${path}.outputs`, federation.outputs, OUTPUT_RULES, report);
  if ((federation.rescheduler_threshold ?? 0) < 0) report(`${path}.rescheduler_threshold`, 'must not be negative');
  if ((federation.self?.priority ?? 0) < 0) report(`${path}.self.priority`, 'must not be negative');
  if ((federation.self?.weight ?? 0) < 0) report(`${path}.self.weight`, 'must not be negative');
  for (const [id, weight] of Object.entries(federation.weights ?? {})) {
    report(`${path}.weights.${id}`, clusterIdProblem(id) ?? (weight < 0 ? 'must not be negative' : undefined));
  }
  const members = federation.members?.map((member, index) => readMember(member, `${path}.members[${index}]`, report));
  reportRepeated(members ?? [], `${path}.members`, report);
  return {
    ...federation,
    group_id: federation.group_id || serviceName,
    ...(delegation && { delegation }),
    ...(members && { members }),
  };
}

/**
 * Only the store of the cluster lets the manager check and copy an object in one step, or under a lock that all managers
 * of the cluster respect.
 */
function protectedOutputsProblem({
  federation,
  output,
}: Pick<Definition, 'federation' | 'output'>): string | undefined {
  if (federation?.outputs !== 'protect') return undefined;
  const elsewhere = output.find(({ storage_provider }) => !isClusterStore(parseProvider(storage_provider)));
  if (!elsewhere) return undefined;
  return `"protect" is possible in the cluster's own store only: remove the output at ${elsewhere.storage_provider}, or use "replace"`;
}

function check(path: string, value: string, allowed: readonly string[], report: Report): void {
  if (!allowed.includes(value)) report(path, `"${value}" is not one of ${allowed.join(', ')}`);
}

function readMember(given: Replica, path: string, report: Report): Replica {
  const type = given.type.trim().toLowerCase();
  if (given.priority < 0) report(`${path}.priority`, 'must not be negative');
  if (type === 'endpoint') {
    if (!isHttpUrl(given.url)) report(`${path}.url`, 'must be an http or https URL');
    return { ...given, type };
  }
  if (type !== 'oscar') report(`${path}.type`, `"${given.type}" is not one of oscar, endpoint`);
  report(`${path}.cluster_id`, clusterIdProblem(given.cluster_id));
  report(`${path}.service_name`, serviceNameProblem(given.service_name));
  // `ssl_verify` of the cluster applies, not that of the member. The Go manager shows false here, and so do we.
  return { ...given, type, ssl_verify: false };
}

function reportRepeated(members: readonly Replica[], path: string, report: Report): void {
  const seen = new Set<string>();
  for (const [index, { type, cluster_id, service_name, url }] of members.entries()) {
    const identity = JSON.stringify([type, cluster_id, service_name, url]);
    if (seen.has(identity)) report(`${path}[${index}]`, 'is listed twice');
    seen.add(identity);
  }
}

function isHttpUrl(text: string): boolean {
  const url = URL.parse(text);
  return (
    url !== null &&
    (url.protocol === 'http:' || url.protocol === 'https:') &&
    url.username === '' &&
    url.password === ''
  );
}
