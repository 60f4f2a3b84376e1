import { createReadStream, createWriteStream, renameSync, rmSync, statSync } from 'node:fs';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { ClientError } from '../../client/errors.ts';
import { bodyBytes, notReached, send } from '../../client/http.ts';
import { onInterrupt } from '../../client/interruption.ts';
import { withProgress } from '../../client/progress.ts';
import type { Terminal } from '../../client/terminal.ts';
import { formatSize } from '../units.ts';
import { type ClientStore, type ObjectLocation, refuse } from './store.ts';

/** How long a store may be silent in the middle of a file. */
const PATIENCE_MS = 60_000;

/** Uploads a file. The store has all of it or nothing, also when this is interrupted. */
export async function uploadFile(
  file: string,
  to: ObjectLocation,
  store: ClientStore,
  terminal: Terminal,
): Promise<void> {
  const { size: length } = fileAt(file);
  const { url, headers } = await store.presign(to, 'upload');
  const meter = new Meter();
  const body = createReadStream(file).pipe(meter);
  await withProgress(
    terminal,
    () => `${file}: ${meter.share(length)}`,
    async () => {
      const answer = await send({
        method: 'PUT',
        url,
        headers: { ...headers, 'content-length': String(length) },
        body,
        verify: store.verify,
        patienceMs: PATIENCE_MS,
      });
      const text = (await bodyBytes(answer, url)).toString();
      if ((answer.statusCode ?? 0) >= 300) refuse(answer.statusCode ?? 0, text, to);
    },
  );
}

/** Downloads an object into a file, which is there only once it is whole; without one, to standard output. */
export async function downloadFile(
  from: ObjectLocation,
  file: string | undefined,
  store: ClientStore,
  terminal: Terminal,
): Promise<void> {
  const { url } = await store.presign(from, 'download');
  const answer = await send({ method: 'GET', url, verify: store.verify, patienceMs: PATIENCE_MS });
  if ((answer.statusCode ?? 0) >= 400) {
    refuse(answer.statusCode ?? 0, (await bodyBytes(answer, url)).toString(), from);
  }
  if (file === undefined) {
    for await (const chunk of answer) await terminal.write(chunk as Uint8Array);
    return;
  }
  const beside = `${file}.${process.pid}.part`;
  const forget = () => rmSync(beside, { force: true });
  const meter = new Meter();
  const length = Number(answer.headers['content-length']);
  const say = () => `${file}: ${meter.share(length)}`;
  const save = () => pipeline(answer, meter, createWriteStream(beside));
  try {
    await onInterrupt(forget, () => withProgress(terminal, say, save));
    renameSync(beside, file);
  } catch (error) {
    throw await notReached(error, url);
  } finally {
    forget();
  }
}

export function fileAt(file: string): { size: number } {
  const found = statSync(file, { throwIfNoEntry: false });
  if (!found) throw new ClientError('bad-input', `there is no file ${file}`);
  if (!found.isFile()) throw new ClientError('bad-input', `${file} is not a file: files are copied one by one`);
  return found;
}

/** Counts what passes. */
class Meter extends Transform {
  #passed = 0;

  override _transform(chunk: Buffer, _encoding: string, done: (error: null, chunk: Buffer) => void): void {
    this.#passed += chunk.length;
    done(null, chunk);
  }

  share(of: number): string {
    const all = of > 0 ? ` of ${formatSize(of)}, ${Math.floor((this.#passed / of) * 100)}%` : '';
    return `${formatSize(this.#passed)}${all}`;
  }
}
