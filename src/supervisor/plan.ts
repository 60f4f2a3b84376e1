import type { StageOut } from '../cluster/index.ts';
import type { PlannedUpload, UploadPlan } from './staging.ts';
import { type FoundFile, type Walk, walk } from './walk.ts';

/** S3 takes no longer key; what it would answer is less clear than a note. */
const LONGEST_KEY = 1024;

/** Which files of an output directory go where (contract §8.5). */
export async function plan(directory: string, outputs: readonly StageOut[]): Promise<UploadPlan> {
  return assign(await walk(directory), outputs);
}

/** Every file goes to every output whose filters let it through. */
export function assign({ files, notes }: Walk, outputs: readonly StageOut[]): UploadPlan {
  const planned = new Map<string, PlannedUpload>();
  const tooLong: string[] = [];
  for (const file of files) {
    for (const output of outputs.filter((each) => matches(file, each))) {
      const { store, bucket, folder } = output;
      const to = { store, bucket, key: folder === '' ? file.name : `${folder}/${file.name}` };
      if (Buffer.byteLength(to.key) > LONGEST_KEY) {
        tooLong.push(`"${file.name}" is left out: its key in ${store} would be longer than ${LONGEST_KEY} bytes`);
        continue;
      }
      // Two outputs may lead to one place; the file is the same.
      planned.set(JSON.stringify([store, bucket, to.key]), { name: file.name, bytes: file.bytes, to });
    }
  }
  return { files: [...planned.values()], notes: [...notes, ...tooLong] };
}

function matches({ name }: FoundFile, { prefix, suffix }: StageOut): boolean {
  return (
    (prefix.length === 0 || prefix.some((each) => name.startsWith(each))) &&
    (suffix.length === 0 || suffix.some((each) => name.endsWith(each)))
  );
}
