import { createReadStream, createWriteStream, renameSync, rmSync, statSync } from 'node:fs';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { ClusterClient } from '../../client/cluster-client.ts';
import { ClientError } from '../../client/errors.ts';
import { bytesOf, notReached, send } from '../../client/http.ts';
import { onInterrupt } from '../../client/interruption.ts';
import { withProgress } from '../../client/progress.ts';
import { printable } from '../../client/table.ts';
import type { Terminal } from '../../client/terminal.ts';
import { size } from '../units.ts';
import type { Place } from './place.ts';

/** How long a store may be silent in the middle of a file. */
const PATIENCE_MS = 60_000;

interface Presigned {
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Uploads a file. The store has all of it or nothing, also when this is interrupted. */
export async function upload(file: string, to: Place, cluster: ClusterClient, terminal: Terminal): Promise<void> {
  const { size: length } = fileAt(file);
  const { url, headers } = await presign(cluster, to, 'upload');
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
        verify: cluster.entry.ssl_verify,
        patienceMs: PATIENCE_MS,
      });
      await refuseUnlessDone(answer.statusCode ?? 0, (await bytesOf(answer, url)).toString(), to);
    },
  );
}

/** Downloads an object into a file, which is there only once it is whole; without one, to standard output. */
export async function download(
  from: Place,
  file: string | undefined,
  cluster: ClusterClient,
  terminal: Terminal,
): Promise<void> {
  const { url } = await presign(cluster, from, 'download');
  const answer = await send({ method: 'GET', url, verify: cluster.entry.ssl_verify, patienceMs: PATIENCE_MS });
  if ((answer.statusCode ?? 0) >= 400) {
    await refuseUnlessDone(answer.statusCode ?? 0, (await bytesOf(answer, url)).toString(), from);
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

async function presign(cluster: ClusterClient, { bucket, key }: Place, operation: string): Promise<Presigned> {
  const path = `/system/buckets/${encodeURIComponent(bucket)}/presign`;
  const body = { object_key: key, operation };
  return (await cluster.call('POST', path, { body, about: `bucket "${bucket}"` })).json() as Presigned;
}

async function refuseUnlessDone(status: number, text: string, { bucket, key }: Place): Promise<void> {
  if (status < 300) return;
  if (status === 404)
    throw new ClientError(
      'not-found',
      `there is no object ${bucket}/${key}: \`oscar ls ${bucket}\` shows what is there`,
    );
  const said = /<Message>([^<]*)/.exec(text)?.[1] ?? `it answered ${status}`;
  throw new ClientError(
    status === 403 ? 'not-allowed' : 'failed',
    `the store refused ${bucket}/${key}: ${printable(said)}`,
  );
}

/** Counts what passes. */
class Meter extends Transform {
  #passed = 0;

  override _transform(chunk: Buffer, _encoding: string, done: (error: null, chunk: Buffer) => void): void {
    this.#passed += chunk.length;
    done(null, chunk);
  }

  share(of: number): string {
    const all = of > 0 ? ` of ${size(of)}, ${Math.floor((this.#passed / of) * 100)}%` : '';
    return `${size(this.#passed)}${all}`;
  }
}
