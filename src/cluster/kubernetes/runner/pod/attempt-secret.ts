import { ORDER_FILES, type PodInput, type PodOrders, writeOrders } from '../../../../supervisor/index.ts';
import type { Attempt } from '../../../attempt.ts';
import type { SecretObject } from '../../api/kinds.ts';
import { factsNote } from '../state/notes.ts';
import { environmentOf } from './environment.ts';
import { type AttemptPlace, isShelved, ownersOf } from './place.ts';
import { ATTEMPT, SCRIPT_FILE } from './pod.ts';

/** What the programs in every pod are told alike. */
export type PodHabits = Pick<PodOrders, 'networks' | 'port' | 'keyPatience'>;

/** The Secret of an attempt: its record, and what its containers get to see, each its part. */
export function secretOf(attempt: Attempt, place: AttemptPlace, stores: string, habits: PodHabits): SecretObject {
  const { name, timeout, demand } = attempt;
  return {
    metadata: {
      name,
      namespace: place.namespace,
      labels: { [ATTEMPT]: name },
      annotations: factsNote({ timeout, memory: demand.memory }),
      ownerReferences: ownersOf(place),
    },
    type: 'Opaque',
    data: secretData(attempt, stores, habits),
  };
}

export function secretData(attempt: Attempt, stores: string, habits: PodHabits): Record<string, string> {
  const { input, script } = attempt;
  const entries: Readonly<Record<string, string | Uint8Array>> = {
    [ORDER_FILES.orders]: writeOrders(ordersOf(attempt, habits)),
    [ORDER_FILES.stores]: stores,
    [SCRIPT_FILE]: script,
    ...(input.kind === 'bytes' && !isShelved(attempt) && { [ORDER_FILES.input]: input.bytes }),
    ...environmentOf(attempt).hidden,
  };
  return Object.fromEntries(Object.entries(entries).map(([key, value]) => [key, base64(value)]));
}

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
