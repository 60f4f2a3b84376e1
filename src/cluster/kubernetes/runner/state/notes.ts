import type { KubeObject, Metadata } from '../../api/kinds.ts';
import type { End, Facts, Wanted } from '../verdict/end.ts';

/** What the Secret of an attempt says of it, in annotations: the Secret is its record, and outlives its pod. */
export interface Notes extends Facts {
  readonly end?: End;
}

/** What is known from the beginning, in JSON. */
const FACTS = 'oscar.grycap/attempt-facts';
/** When its script was first seen to run: from then on it is never started again. */
const BEGAN = 'oscar.grycap/attempt-began';
/** That it is to end, and why, in JSON. */
const WANTED = 'oscar.grycap/attempt-wanted';
/** How it ended, in JSON. Whoever finds it knows that nothing is left to be done but to tidy up. */
const END = 'oscar.grycap/attempt-end';

export function notesOf({ metadata }: KubeObject): Notes {
  const { [FACTS]: facts, [BEGAN]: began, [WANTED]: wanted, [END]: end } = metadata.annotations ?? {};
  const known = (parsed(facts) ?? { timeout: 0, memory: 0 }) as Pick<Notes, 'timeout' | 'memory'>;
  const asked = parsed(wanted) as Wanted | undefined;
  const over = parsed(end) as End | undefined;
  return {
    ...known,
    ...(began && { began: Number(began) }),
    ...(asked && { wanted: asked }),
    ...(over && { end: over }),
  };
}

export const factsNote = ({ timeout, memory }: Facts) => ({ [FACTS]: JSON.stringify({ timeout, memory }) });
export const beganNote = (at: number) => ({ [BEGAN]: String(at) });
export const wantedNote = (wanted: Wanted) => ({ [WANTED]: JSON.stringify(wanted) });
export const endNote = (end: End) => ({ [END]: JSON.stringify(end) });

/** The same object with these notes beside what is written on it. */
export function noted<T extends KubeObject>(object: T, notes: NonNullable<Metadata['annotations']>): T {
  return { ...object, metadata: { ...object.metadata, annotations: { ...object.metadata.annotations, ...notes } } };
}

/** Undefined for what cannot be read: somebody else has written it. */
function parsed(json: string | undefined): unknown {
  if (json === undefined) return undefined;
  try {
    return JSON.parse(json) as unknown;
  } catch {
    return undefined;
  }
}
