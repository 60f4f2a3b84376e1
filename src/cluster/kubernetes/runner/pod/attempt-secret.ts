import { GIVEN_FILES, ORDER_FILES, type PodInput, type PodOrders, writeOrders } from '../../../../supervisor/index.ts';
import type { Attempt } from '../../../attempt.ts';
import type { SecretObject } from '../../api/kinds.ts';
import { factsNote, podNote } from '../state/notes.ts';
import { beginningOf, environmentOf } from './environment.ts';
import { type AttemptPlace, isShelved, ownersOf } from './place.ts';
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
  const { input, script } = attempt;
  return packed({
    [ORDER_FILES.orders]: writeOrders(ordersOf(attempt, habits)),
    [ORDER_FILES.stores]: stores,
    [SCRIPT_FILE]: script,
    ...(input.kind === 'bytes' && !isShelved(attempt) && { [ORDER_FILES.input]: input.bytes }),
    ...environmentOf(attempt).hidden,
  });
}

/** What a pod that has waited is given, in a Secret of its own name. */
export function warmData(attempt: Attempt, stores: string, habits: PodHabits): Record<string, string> {
  const { input } = attempt;
  return packed({
    [ORDER_FILES.orders]: writeOrders(ordersOf(attempt, habits)),
    [ORDER_FILES.stores]: stores,
    [GIVEN_FILES.script]: attempt.script,
    [GIVEN_FILES.begin]: beginningOf(attempt),
    ...(input.kind === 'bytes' && !isShelved(attempt) && { [ORDER_FILES.input]: input.bytes }),
  });
}

const packed = (entries: Readonly<Record<string, string | Uint8Array>>) =>
  Object.fromEntries(Object.entries(entries).map(([key, value]) => [key, base64(value)]));

export const base64 = (value: string | Uint8Array) => Buffer.from(value as string).toString('base64');

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
