import { OutputFailed } from './output-failed.ts';
import type { StagingArea } from './staging-area.ts';

/** What all files of a commit have in common. */
export interface Commission {
  readonly area: StagingArea;
  /** On each final object, so that it is known again. */
  readonly mark: string;
  /** In whose name it is written. */
  readonly principal: string;
  /** By the names of the files. */
  readonly eTags: ReadonlyMap<string, string>;
}

/** The staged file, as the manifest has it. */
export function stagedObject({ area, eTags }: Commission, name: string): { bucket: string; key: string; eTag: string } {
  return { bucket: area.bucket, key: `${area.files}${name}`, eTag: eTags.get(name) ?? '' };
}

export const changed = (name: string) =>
  new OutputFailed(`the output "${name}" was changed after the other cluster had reported it`);

export const missing = (name: string) =>
  new OutputFailed(`the output "${name}" is not there, and the other cluster had reported it`);
