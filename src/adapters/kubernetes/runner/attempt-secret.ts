import type { Attempt } from '../../../model/job/index.ts';
import { GIVEN_FILES, ORDER_FILES, type PodInput, type PodOrders, writeOrders } from '../../../staging/index.ts';
import type { SecretObject } from '../client/kinds.ts';
import { buildEnvironment, buildLaunchScript } from './environment.ts';
import { factsNote, podNote } from './notes.ts';
import { type AttemptPlace, isInputInBlobStore, ownerReferences, SECRET_BYTES } from './place.ts';
import { ATTEMPT, SCRIPT_FILE } from './pod.ts';

/** Options of the staging programs, the same in every pod. */
export type StagingOptions = Pick<PodOrders, 'networks' | 'port' | 'keyPatience'>;

/**
 * The Secret of an attempt. Its annotations are the record of the attempt; its data is mounted into the containers, each of
 * which sees only its part. If a warm pod is chosen, the Secret has no data, because that pod does not mount it.
 */
export function toAttemptSecret(
  attempt: Attempt,
  place: AttemptPlace,
  stores: string,
  stagingOptions: StagingOptions,
  pod?: string,
): SecretObject {
  const { name, timeout, demand } = attempt;
  return {
    metadata: {
      name,
      namespace: place.namespace,
      labels: { [ATTEMPT]: name },
      annotations: { ...factsNote({ timeout, memory: demand.memory }), ...(pod !== undefined && podNote(pod)) },
      ownerReferences: ownerReferences(place),
    },
    type: 'Opaque',
    data: pod === undefined ? secretData(attempt, stores, stagingOptions) : {},
  };
}

export function secretData(attempt: Attempt, stores: string, stagingOptions: StagingOptions): Record<string, string> {
  return encodeEntries(secretEntries(attempt, stores, stagingOptions));
}

/** The data for a warm pod, in a Secret with the name of the pod. */
export function warmData(attempt: Attempt, stores: string, stagingOptions: StagingOptions): Record<string, string> {
  return encodeEntries(warmEntries(attempt, stores, stagingOptions));
}

/** Why the data of the attempt does not fit into a Secret. */
export function secretSizeProblem(
  attempt: Attempt,
  stores: string,
  stagingOptions: StagingOptions,
): string | undefined {
  const all = countBytes(secretEntries(attempt, stores, stagingOptions));
  if (all <= SECRET_BYTES) return undefined;
  const script = Buffer.byteLength(attempt.script);
  const environment = countBytes(buildEnvironment(attempt).hidden);
  return (
    `the data for its pod has ${kib(all)}, and Kubernetes stores at most ${kib(SECRET_BYTES)} in one Secret: the script has ` +
    `${kib(script)}, secrets and large variables have ${kib(environment)}, the rest ${kib(all - script - environment)}. ` +
    'Move large parts to the image or to a bucket'
  );
}

const kib = (bytes: number) => `${Math.ceil(bytes / 1024)} KiB`;

/** Whether the data fits into the Secret of a warm pod, which contains the complete environment. */
export const fitsWarmPod = (attempt: Attempt, stores: string, stagingOptions: StagingOptions) =>
  countBytes(warmEntries(attempt, stores, stagingOptions)) <= SECRET_BYTES;

function secretEntries(attempt: Attempt, stores: string, stagingOptions: StagingOptions): Entries {
  return {
    ...orderEntries(attempt, stores, stagingOptions),
    [SCRIPT_FILE]: attempt.script,
    ...buildEnvironment(attempt).hidden,
  };
}

function warmEntries(attempt: Attempt, stores: string, stagingOptions: StagingOptions): Entries {
  return {
    ...orderEntries(attempt, stores, stagingOptions),
    [GIVEN_FILES.script]: attempt.script,
    [GIVEN_FILES.begin]: buildLaunchScript(attempt),
  };
}

function orderEntries(attempt: Attempt, stores: string, stagingOptions: StagingOptions): Entries {
  const { input } = attempt;
  return {
    [ORDER_FILES.orders]: writeOrders(toPodOrders(attempt, stagingOptions)),
    [ORDER_FILES.stores]: stores,
    ...(input.kind === 'bytes' && !isInputInBlobStore(attempt) && { [ORDER_FILES.input]: input.bytes }),
  };
}

type Entries = Readonly<Record<string, string | Uint8Array>>;

const countBytes = (entries: Entries) =>
  Object.values(entries).reduce((sum, value) => sum + Buffer.byteLength(value), 0);

const encodeEntries = (entries: Entries) =>
  Object.fromEntries(Object.entries(entries).map(([key, value]) => [key, toBase64(value)]));

export const toBase64 = (value: string | Uint8Array) => Buffer.from(value as string).toString('base64');

function toPodOrders(attempt: Attempt, stagingOptions: StagingOptions): PodOrders {
  const { name, outputs, inputLabel, manifest, answer, patience } = attempt;
  return {
    attempt: name,
    input: toPodInput(attempt),
    outputs,
    answer,
    ...stagingOptions,
    ...(inputLabel !== undefined && { inputLabel }),
    ...(manifest && { manifest }),
    ...(patience !== undefined && { patience }),
  };
}

function toPodInput(attempt: Attempt): PodInput {
  const { input } = attempt;
  if (input.kind !== 'bytes') return input;
  return { kind: isInputInBlobStore(attempt) ? 'url' : 'bytes', name: input.name };
}
