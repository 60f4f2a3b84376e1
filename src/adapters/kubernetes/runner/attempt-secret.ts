import type { Attempt } from '../../../model/job/index.ts';
import { GIVEN_FILES, ORDER_FILES, type PodInput, type PodOrders, writeOrders } from '../../../staging/index.ts';
import type { SecretObject } from '../client/kinds.ts';
import { beginningOf, environmentOf } from './environment.ts';
import { factsNote, podNote } from './notes.ts';
import { type AttemptPlace, isShelved, ownersOf, SECRET_BYTES } from './place.ts';
import { ATTEMPT, SCRIPT_FILE } from './pod.ts';

/** What the programs in every pod are told alike. */
export type PodHabits = Pick<PodOrders, 'networks' | 'port' | 'keyPatience'>;

/**
 * The Secret of an attempt: its record, and what its containers get to see, each its part. If a pod waits for it, that one
 * gets to see nothing of it.
 */
export function secretOf(
  attempt: Attempt,
  place: AttemptPlace,
  stores: string,
  habits: PodHabits,
  pod?: string,
): SecretObject {
  const { name, timeout, demand } = attempt;
  return {
    metadata: {
      name,
      namespace: place.namespace,
      labels: { [ATTEMPT]: name },
      annotations: { ...factsNote({ timeout, memory: demand.memory }), ...(pod !== undefined && podNote(pod)) },
      ownerReferences: ownersOf(place),
    },
    type: 'Opaque',
    data: pod === undefined ? secretData(attempt, stores, habits) : {},
  };
}

export function secretData(attempt: Attempt, stores: string, habits: PodHabits): Record<string, string> {
  return packed(entriesOf(attempt, stores, habits));
}

/** What a pod that has waited is given, in a Secret of its own name. */
export function warmData(attempt: Attempt, stores: string, habits: PodHabits): Record<string, string> {
  return packed(warmEntries(attempt, stores, habits));
}

/** Why no pod can be given all that it needs. */
export function excessOf(attempt: Attempt, stores: string, habits: PodHabits): string | undefined {
  const all = bytesOf(entriesOf(attempt, stores, habits));
  if (all <= SECRET_BYTES) return undefined;
  const script = Buffer.byteLength(attempt.script);
  const environment = bytesOf(environmentOf(attempt).hidden);
  return (
    `what its pod is to be given has ${kib(all)}, and Kubernetes takes ${kib(SECRET_BYTES)} in one Secret: the script has ` +
    `${kib(script)}, secrets and large variables have ${kib(environment)}, the rest ${kib(all - script - environment)}. ` +
    'Put what is large into the image or a bucket'
  );
}

const kib = (bytes: number) => `${Math.ceil(bytes / 1024)} KiB`;

/** Can a pod that waits be given all that it needs? It is given more of the environment in this way than others. */
export const fitsWaiting = (attempt: Attempt, stores: string, habits: PodHabits) =>
  bytesOf(warmEntries(attempt, stores, habits)) <= SECRET_BYTES;

function entriesOf(attempt: Attempt, stores: string, habits: PodHabits): Entries {
  return {
    ...ordersIn(attempt, stores, habits),
    [SCRIPT_FILE]: attempt.script,
    ...environmentOf(attempt).hidden,
  };
}

function warmEntries(attempt: Attempt, stores: string, habits: PodHabits): Entries {
  return {
    ...ordersIn(attempt, stores, habits),
    [GIVEN_FILES.script]: attempt.script,
    [GIVEN_FILES.begin]: beginningOf(attempt),
  };
}

function ordersIn(attempt: Attempt, stores: string, habits: PodHabits): Entries {
  const { input } = attempt;
  return {
    [ORDER_FILES.orders]: writeOrders(ordersOf(attempt, habits)),
    [ORDER_FILES.stores]: stores,
    ...(input.kind === 'bytes' && !isShelved(attempt) && { [ORDER_FILES.input]: input.bytes }),
  };
}

type Entries = Readonly<Record<string, string | Uint8Array>>;

const bytesOf = (entries: Entries) => Object.values(entries).reduce((sum, value) => sum + Buffer.byteLength(value), 0);

const packed = (entries: Entries) =>
  Object.fromEntries(Object.entries(entries).map(([key, value]) => [key, toBase64(value)]));

export const toBase64 = (value: string | Uint8Array) => Buffer.from(value as string).toString('base64');

function ordersOf(attempt: Attempt, habits: PodHabits): PodOrders {
  const { name, outputs, manifest, answer, patience } = attempt;
  return {
    attempt: name,
    input: inputOf(attempt),
    outputs,
    answer,
    ...habits,
    ...(manifest && { manifest }),
    ...(patience !== undefined && { patience }),
  };
}

function inputOf(attempt: Attempt): PodInput {
  const { input } = attempt;
  if (input.kind !== 'bytes') return input;
  return { kind: isShelved(attempt) ? 'url' : 'bytes', name: input.name };
}
