import type { Attempt } from '../../../model/job/index.ts';
import type { PodKeys } from './keys.ts';

/** What somebody who starts an attempt brings along; who only ends one does not. */
export interface Begun {
  readonly attempt: Attempt;
  readonly keys: PodKeys;
  /** This process has made its record just now: nobody can have made its pod. */
  readonly fresh: boolean;
}

/** Why it cannot be begun. */
export const startProblem = (begun: Begun) =>
  badName(begun.attempt) ?? (needsKeys(begun) ? begun.keys.refusal : undefined);

/** It can do nothing without, and there are none yet. */
export const needsKeys = ({ keys }: Begun) => keys.neededFirst && keys.given === undefined;

/** There will be some, or it will be known why not. */
export const awaitsKeys = ({ keys }: Begun) =>
  keys.needed && keys.given === undefined && (keys.neededFirst || keys.problem === undefined);

/** It becomes part of a path, and must not lead anywhere else. */
export function badName({ input }: Attempt): string | undefined {
  if (input.kind === 'none') return undefined;
  const { name } = input;
  const bad = name === '' || name === '.' || name === '..' || /[/\0]/.test(name) || Buffer.byteLength(name) > 255;
  return bad ? `${JSON.stringify(name)} is no name of a file` : undefined;
}
