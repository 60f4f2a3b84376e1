import { createReadStream, createWriteStream, renameSync, rmSync, statSync } from 'node:fs';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { ClientError } from '../../client/errors.ts';
import { bodyBytes, notReached, send } from '../../client/http.ts';
import { onInterrupt } from '../../client/interruption.ts';
import { withProgress } from '../../client/progress.ts';
import type { Terminal } from '../../client/terminal.ts';
import { formatSize } from '../units.ts';
import { type ClientStore, type ObjectLocation, throwStoreError } from './store.ts';

/** How long a store may send nothing in the middle of a file. */
const PATIENCE_MS = 60_000;

/** Uploads a file. If it is interrupted, the store keeps nothing of it. */
export async function uploadFile(
  file: string,
  to: ObjectLocation,
  store: ClientStore,
  terminal: Terminal,
): Promise<void> {
  const { size: length } = statFile(file);
  const { url, headers } = await store.presign(to, 'upload');
  const meter = new ByteCounter();
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
      if (answer.status >= 300) throwStoreError(answer.status, text, to);
    },
  );
}

/** Downloads an object to a file, which appears when it is complete; without a file, to standard output. */
export async function downloadFile(
  from: ObjectLocation,
  file: string | undefined,
  store: ClientStore,
  terminal: Terminal,
): Promise<void> {
  const { url } = await store.presign(from, 'download');
  const answer = await send({ method: 'GET', url, verify: store.verify, patienceMs: PATIENCE_MS });
  if (answer.status >= 400) {
    throwStoreError(answer.status, (await bodyBytes(answer, url)).toString(), from);
  }
  if (file === undefined) {
    for await (const chunk of answer.body) await terminal.write(chunk as Uint8Array);
    return;
  }
  const partial = `${file}.${process.pid}.part`;
  const forget = () => rmSync(partial, { force: true });
  const meter = new ByteCounter();
  const length = Number(answer.headers['content-length']);
  const say = () => `${file}: ${meter.share(length)}`;
  const save = () => pipeline(answer.body, meter, createWriteStream(partial));
  try {
    await onInterrupt(forget, () => withProgress(terminal, say, save));
    renameSync(partial, file);
  } catch (error) {
    throw await notReached(error, url);
  } finally {
    forget();
  }
}

export function statFile(file: string): { size: number } {
  const found = statSync(file, { throwIfNoEntry: false });
  if (!found) throw new ClientError('bad-input', `file ${file} not found`);
  if (!found.isFile()) throw new ClientError('bad-input', `${file} is not a regular file`);
  return found;
}

/** Counts the bytes that pass through. */
class ByteCounter extends Transform {
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
