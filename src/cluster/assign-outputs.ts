import type { ObjectAt, StageOut } from './attempt.ts';

/** A file of an output directory and one of the places where it goes. */
export interface PlannedUpload {
  /** Relative to the output directory. */
  readonly name: string;
  readonly bytes: number;
  readonly to: ObjectAt;
}

export interface AssignedOutputs {
  readonly files: readonly PlannedUpload[];
  /** What was left out and why, a sentence each. */
  readonly notes: readonly string[];
}

/** S3 takes no longer key; what it would answer is less clear than a note. */
const LONGEST_KEY = 1024;

/** Every file goes to every output whose filters let it through (contract §8.5). */
export function assignOutputs(
  files: readonly Pick<PlannedUpload, 'name' | 'bytes'>[],
  outputs: readonly StageOut[],
): AssignedOutputs {
  const planned = new Map<string, PlannedUpload>();
  const notes: string[] = [];
  for (const { name, bytes } of files) {
    for (const output of outputs.filter((each) => matches(name, each))) {
      const { store, bucket, folder } = output;
      const to = { store, bucket, key: folder === '' ? name : `${folder}/${name}` };
      if (Buffer.byteLength(to.key) > LONGEST_KEY) {
        notes.push(`"${name}" is left out: its key in ${store} would be longer than ${LONGEST_KEY} bytes`);
        continue;
      }
      // Two outputs may lead to one place; the file is the same.
      planned.set(JSON.stringify([store, bucket, to.key]), { name, bytes, to });
    }
  }
  return { files: [...planned.values()], notes };
}

function matches(name: string, { prefix, suffix }: StageOut): boolean {
  return (
    (prefix.length === 0 || prefix.some((each) => name.startsWith(each))) &&
    (suffix.length === 0 || suffix.some((each) => name.endsWith(each)))
  );
}
