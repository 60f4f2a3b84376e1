import { posix } from 'node:path';
import type { Secret } from '../base/secret.ts';
import type { Attempt, JobKey, ObjectAt, PodTraits, StageIn } from '../cluster/index.ts';
import { bytes, type Service } from '../service/index.ts';
import { annotationsOf, labelsOf } from '../service/labels.ts';
import { demandOf, timeoutOf } from './demand.ts';
import type { JobEvent } from './event.ts';
import type { Jobs } from './jobs.ts';

/** What an attempt is made from, wherever its files are. */
export interface AttemptBasis {
  readonly name: string;
  /** The id that users know the job by. */
  readonly job: string;
  /** What its record is called here, if that is something else. */
  readonly record?: JobKey;
  readonly service: Service;
  readonly event: JobEvent;
  /** The file that is its input, if it may have one. */
  readonly file: ObjectAt | undefined;
  /** Values of `environment.secrets`. */
  readonly secrets: Readonly<Record<string, Secret>>;
}

/** What of an attempt is the same wherever its files are. */
export type AttemptParts = Pick<
  Attempt,
  'name' | 'image' | 'script' | 'environment' | 'demand' | 'timeout' | 'input' | 'traits'
>;

/**
 * The largest event that is in the environment too. A string there can have 128 KiB on Linux, and they share one space
 * with the arguments; larger events are in the input file only (R23).
 */
export const LARGEST_EVENT_VARIABLE = 64 * 1024;

export function attemptParts(basis: AttemptBasis, jobs: Pick<Jobs, 'node' | 'timeout'>): AttemptParts {
  const { definition } = basis.service;
  return {
    name: basis.name,
    image: definition.image,
    script: definition.script,
    environment: environmentOf(basis, jobs.node),
    demand: demandOf(definition),
    timeout: timeoutOf(definition, jobs.timeout),
    input: definition.file_stage_in ? { kind: 'none' } : inputOf(basis),
    traits: traitsOf(basis),
  };
}

function traitsOf({ job, record, service }: AttemptBasis): PodTraits {
  return { ...serviceTraits(service), job: record ?? { service: service.definition.name, id: job } };
}

/** What is the same for all attempts of a service. */
export function serviceTraits(service: Service): Omit<PodTraits, 'job'> {
  const { image_pull_secrets = [], enable_sgx, ephemeral_storage_request } = service.definition;
  const localDisk = bytes(ephemeral_storage_request);
  return {
    namespace: service.namespace,
    labels: labelsOf(service),
    annotations: annotationsOf(service),
    imagePullSecrets: image_pull_secrets,
    sgx: enable_sgx,
    ...(localDisk !== undefined && { localDisk }),
  };
}

function inputOf({ job, event, file }: AttemptBasis): StageIn {
  if (file) return { kind: 'object', name: fileName(file.key), from: file };
  return { kind: 'bytes', name: `event-file-${job}`, bytes: event.input };
}

/** The last part of a key, as far as a file can be called that. */
function fileName(key: string): string {
  const name = posix.basename(key);
  if (name === '' || name === '.' || name === '..') return 'input';
  if (Buffer.byteLength(name) <= 255) return name;
  const extension = posix.extname(name);
  return `input${Buffer.byteLength(extension) <= 32 ? extension : ''}`;
}

/** What the script sees (contract §8.2). What the manager says comes last, so that no definition can say otherwise. */
function environmentOf(
  { job, service, event, file, secrets }: AttemptBasis,
  node: string,
): Record<string, string | Secret> {
  const text = variableOf(event.event);
  const time = event.file && event.file.type !== 'dcache' ? event.file.time : '';
  return {
    ...service.definition.environment.variables,
    ...secrets,
    ...event.variables,
    OSCAR_SERVICE_NAME: service.definition.name,
    OSCAR_SERVICE_TOKEN: service.token,
    OSCAR_SERVICE_BASE_PATH: '',
    JOB_UUID: job,
    RESOURCE_ID: node,
    ...(text !== undefined && { EVENT: text }),
    ...(file && { STORAGE_OBJECT_KEY: file.key, ...(time !== '' && { EVENT_TIME: time }) }),
  };
}

/** Text without NUL, and not too much of it. */
function variableOf(event: Uint8Array): string | undefined {
  if (event.length > LARGEST_EVENT_VARIABLE || event.includes(0)) return undefined;
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(event);
  } catch {
    return undefined;
  }
}
