import { Readable } from 'node:stream';
import { ZipFile } from 'yazl';
import { StagingError } from './errors.ts';
import { writeWhole } from './fetch.ts';
import { openOutput } from './remote-store.ts';
import { type FoundFile, walk } from './walk.ts';

/**
 * What a synchronous caller is answered (docs/go-manager.md#events-and-scripts): base64 of the one file, or of a zip
 * archive of all.
 */
export async function pack(directory: string, to: string): Promise<boolean> {
  const { files } = await walk(directory);
  const [first] = files;
  if (!first) return false;
  try {
    const content = files.length === 1 ? contentOf(directory, first.name) : archive(directory, files);
    await writeWhole(to, base64(content));
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new StagingError('output-failed', `the answer could not be put together: ${why}`, { cause });
  }
  return true;
}

async function* contentOf(directory: string, name: string): AsyncIterable<Uint8Array> {
  await using file = await openOutput(directory, name);
  yield* file.content();
}

async function* archive(directory: string, files: readonly FoundFile[]): AsyncIterable<Uint8Array> {
  const zip = new ZipFile();
  // The types know less of it than there is.
  const output = zip.outputStream as Readable;
  zip.on('error', (error: Error) => output.destroy(error));
  for (const { name } of files) {
    // Opened one after another, however many there are.
    zip.addReadStreamLazy(entryName(name), (ready: (error: unknown, stream: Readable) => void) => {
      ready(undefined, Readable.from(contentOf(directory, name), { objectMode: false }));
    });
  }
  zip.end();
  yield* output;
}

/** A zip archive has `/` for a separator and no drives; a name that another system would read like that means itself. */
const entryName = (name: string) => name.replaceAll('\\', '_').replace(/^([A-Za-z]):/, '$1_');

async function* base64(source: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
  let rest = Buffer.alloc(0);
  for await (const chunk of source) {
    const bytes = Buffer.concat([rest, chunk]);
    // Three bytes are four characters; in between nothing may be filled up.
    const whole = bytes.length - (bytes.length % 3);
    yield Buffer.from(bytes.toString('base64', 0, whole), 'latin1');
    rest = bytes.subarray(whole);
  }
  yield Buffer.from(rest.toString('base64'), 'latin1');
}
