import type { KubeObject, Metadata } from '../client/kinds.ts';
import type { PodFacts, PodOutcome, RequestedStop } from './outcome.ts';

/** The record of an attempt, in annotations of its Secret, which outlives the pod. */
export interface AttemptNotes extends PodFacts {
  readonly end?: PodOutcome;
  /** The warm pod that was chosen; if absent, a pod with the name of the attempt is created. */
  readonly pod?: string;
}

/** Facts known from the beginning, as JSON. */
const FACTS = 'oscar.grycap/attempt-facts';
/** When the script was first seen running: from then on it is never started again. */
const BEGAN = 'oscar.grycap/attempt-began';
/** A requested stop and its reason, as JSON. */
const WANTED = 'oscar.grycap/attempt-wanted';
/** The outcome, as JSON. Once it is set, only cleaning up is left. */
const END = 'oscar.grycap/attempt-end';

/** The chosen warm pod. It is set when the record is created or never, and cleared when the pod cannot be claimed. */
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

/** Clears the chosen warm pod, so that a new pod is created. */
export function withoutPod<T extends KubeObject>(object: T): T {
  return withAnnotations(object, { [CHOSEN]: '' });
}

/** Adds annotations to an object. */
export function withAnnotations<T extends KubeObject>(object: T, notes: NonNullable<Metadata['annotations']>): T {
  return { ...object, metadata: { ...object.metadata, annotations: { ...object.metadata.annotations, ...notes } } };
}

/** Undefined for invalid JSON, which only another writer can have written. */
function parseJson(json: string | undefined): unknown {
  if (json === undefined) return undefined;
  try {
    return JSON.parse(json) as unknown;
  } catch {
    return undefined;
  }
}
