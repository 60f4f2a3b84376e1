import { Readable } from 'node:stream';
import { ZipFile } from 'yazl';
import { isDiskFull } from '../../lib/disk-space.ts';
import { StagingError } from './errors.ts';
import { writeAtomically } from './fetch.ts';
import { openOutput } from './remote-store.ts';
import { type FoundFile, walk } from './upload.ts';

/**
 * Writes the answer for a synchronous caller (docs/go-manager.md#events-and-scripts): base64 of the only file, or of a
 * zip archive of all files.
 */
export async function pack(directory: string, to: string): Promise<boolean> {
  const { files } = await walk(directory);
  const [first] = files;
  if (!first) return false;
  try {
    const content = files.length === 1 ? readOutput(directory, first.name) : archive(directory, files);
    await writeAtomically(to, base64(content));
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new StagingError(
      isDiskFull(cause) ? 'disk-full' : 'output-failed',
      `the answer could not be created: ${why}`,
      { cause },
    );
  }
  return true;
}

async function* readOutput(directory: string, name: string): AsyncIterable<Uint8Array> {
  await using file = await openOutput(directory, name);
  yield* file.content();
}

async function* archive(directory: string, files: readonly FoundFile[]): AsyncIterable<Uint8Array> {
  const zip = new ZipFile();
  // The declared type lacks `destroy`.
  const output = zip.outputStream as Readable;
  zip.on('error', (error: Error) => output.destroy(error));
  for (const { name } of files) {
    // Files are opened one after the other, to limit open files.
    zip.addReadStreamLazy(entryName(name), (ready: (error: unknown, stream: Readable) => void) => {
      ready(undefined, Readable.from(readOutput(directory, name), { objectMode: false }));
    });
  }
  zip.end();
  yield* output;
}

/** Replaces backslashes and drive letters, which other systems would interpret when they unpack the archive. */
const entryName = (name: string) => name.replaceAll('\\', '_').replace(/^([A-Za-z]):/, '$1_');

async function* base64(source: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
  let rest = Buffer.alloc(0);
  for await (const chunk of source) {
    const bytes = Buffer.concat([rest, chunk]);
    // Encodes multiples of three bytes, so that padding occurs only at the end.
    const whole = bytes.length - (bytes.length % 3);
    yield Buffer.from(bytes.toString('base64', 0, whole), 'latin1');
    rest = bytes.subarray(whole);
  }
  yield Buffer.from(rest.toString('base64'), 'latin1');
}
