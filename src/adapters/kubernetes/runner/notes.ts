import type { KubeObject, Metadata } from '../client/kinds.ts';
import type { PodFacts, PodOutcome, RequestedStop } from './outcome.ts';

/** What the Secret of an attempt says of it, in annotations: the Secret is its record, and outlives its pod. */
export interface AttemptNotes extends PodFacts {
  readonly end?: PodOutcome;
  /** The pod that waits for it; absent: one of its own name is made for it. */
  readonly pod?: string;
}

/** What is known from the beginning, in JSON. */
const FACTS = 'oscar.grycap/attempt-facts';
/** When its script was first seen to run: from then on it is never started again. */
const BEGAN = 'oscar.grycap/attempt-began';
/** That it is to end, and why, in JSON. */
const WANTED = 'oscar.grycap/attempt-wanted';
/** How it ended, in JSON. Whoever finds it knows that nothing is left to be done but to tidy up. */
const END = 'oscar.grycap/attempt-end';

/** The pod that was chosen for it. Said when the record is made or never; taken back when that pod cannot be had. */
const CHOSEN = 'oscar.grycap/attempt-pod';

export function readNotes({ metadata }: KubeObject): AttemptNotes {
  const { [FACTS]: facts, [BEGAN]: began, [WANTED]: wanted, [END]: end, [CHOSEN]: pod } = metadata.annotations ?? {};
  const known = (parseJson(facts) ?? { timeout: 0, memory: 0 }) as Pick<AttemptNotes, 'timeout' | 'memory'>;
  const asked = parseJson(wanted) as RequestedStop | undefined;
  const over = parseJson(end) as PodOutcome | undefined;
  return {
    ...known,
    ...(began && { began: Number(began) }),
    ...(asked && { wanted: asked }),
    ...(over && { end: over }),
    ...(pod && { pod }),
  };
}

export const factsNote = ({ timeout, memory }: PodFacts) => ({ [FACTS]: JSON.stringify({ timeout, memory }) });
export const beganNote = (at: number) => ({ [BEGAN]: String(at) });
export const wantedNote = (wanted: RequestedStop) => ({ [WANTED]: JSON.stringify(wanted) });
export const endNote = (end: PodOutcome) => ({ [END]: JSON.stringify(end) });

export const podNote = (pod: string) => ({ [CHOSEN]: pod });

/** The same object, for which another pod is to be made. */
export function withoutPod<T extends KubeObject>(object: T): T {
  return withAnnotations(object, { [CHOSEN]: '' });
}

/** The same object with these notes beside what is written on it. */
export function withAnnotations<T extends KubeObject>(object: T, notes: NonNullable<Metadata['annotations']>): T {
  return { ...object, metadata: { ...object.metadata, annotations: { ...object.metadata.annotations, ...notes } } };
}

/** Undefined for what cannot be read: somebody else has written it. */
function parseJson(json: string | undefined): unknown {
  if (json === undefined) return undefined;
  try {
    return JSON.parse(json) as unknown;
  } catch {
    return undefined;
  }
}
