import { decode, type Problem } from './codec.ts';
import { invalidDefinition } from './errors.ts';
import { readFederation } from './federation-block.ts';
import { withoutReservedAnnotations, withoutReservedLabels } from './labels.ts';
import {
  clusterIdProblem,
  imageProblem,
  labelKeyProblem,
  labelValueProblem,
  serviceNameProblem,
  variableNameProblem,
} from './names.ts';
import { bucketProblem, folderProblem, hasBuckets, normalisePath, parseProvider, splitPath } from './paths.ts';
import { withoutClusterStore } from './providers.ts';
import { bytes, millicores } from './quantity.ts';
import { type ServiceDocument, ServiceSchema, type StorageIO } from './schema.ts';
import { blankSecrets, type DefinitionSecrets } from './secrets.ts';
import type { Definition } from './service.ts';

export interface ReadDefinition {
  readonly definition: Definition;
  /** What the body brought; see `settleSecrets` for what is stored. */
  readonly secrets: DefinitionSecrets;
}

/**
 * Reads the body of a create or an update into a definition in canonical form. Every problem is found, not the first
 * only; keys that the manager decides (owner, namespace, token, reserved labels and annotations) are ignored (F33).
 */
export function readDefinition(body: unknown): ReadDefinition {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw invalidDefinition([{ path: '', message: 'the body must be a JSON object that defines a service' }]);
  }
  const problems: Problem[] = [];
  const document = decode(ServiceSchema, body, problems) as ServiceDocument;
  const canonical = canonicalise(document, problems);
  if (problems.length > 0) throw invalidDefinition(problems);
  const { blank, secrets } = blankSecrets(canonical);
  return { definition: blank, secrets };
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
  return {
    ...rest,
    log_level: oneOf('log_level', given.log_level, given.log_level.toUpperCase(), report),
    visibility: oneOf('visibility', given.visibility, given.visibility, report),
    isolation_level: oneOf('isolation_level', given.isolation_level, given.isolation_level.toUpperCase(), report),
    input: given.input.map((io, index) => readStorageIO(io, given.name, `input[${index}]`, report)),
    output: given.output.map((io, index) => readStorageIO(io, given.name, `output[${index}]`, report)),
    script: given.script.replace(/\r\n?/g, '\n'),
    allowed_users: [...new Set(given.allowed_users.map((uid) => uid.trim()).filter((uid) => uid !== ''))],
    labels: withoutReservedLabels(given.labels),
    annotations: withoutReservedAnnotations(given.annotations),
    ...(providers && { storage_providers: providers }),
    ...(federation && { federation: readFederation(federation, given.name, report) }),
  };
}

export type Report = (path: string, message: string | undefined) => void;

/** A value outside the schema's list would open buckets to everybody (S11) or be ignored later: it is refused now. */
function oneOf(
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

/** No program fits into less: somebody left out the unit. */
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
