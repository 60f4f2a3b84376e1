import type { Readable } from 'node:stream';
import { S3Error } from '../errors.ts';
import type { ChunkSignatures } from '../signature/chunk-signature.ts';
import type { ContentFiles } from '../store/content-files.ts';
import type { ContentWriter } from '../store/content-writer.ts';
import type { Announced } from './announced.ts';
import type { Algorithm, Checksum } from './checksum.ts';
import { Digesting, type Digests } from './digests.ts';
import { pump } from './pump.ts';

/** A body that is here, whole and as announced: in memory, or in a file that the database does not mention yet. */
export interface Received {
  readonly size: number;
  /** Hex. */
  readonly md5: string;
  readonly checksum: Checksum | undefined;
  readonly data: Buffer | undefined;
  readonly writer: ContentWriter | undefined;
}

export interface Receiving {
  readonly signatures?: ChunkSignatures | undefined;
  /** To be computed when the client announces none. */
  readonly algorithm?: Algorithm | undefined;
}

/** Receives a small body into memory. */
export async function receiveInMemory(
  source: Readable,
  announced: Announced,
  { signatures, algorithm }: Receiving = {},
): Promise<Received & { readonly data: Buffer }> {
  const chunks: Buffer[] = [];
  const sink = { write: (bytes: Buffer) => chunks.push(bytes) > 0, onDrain: () => undefined };
  // Waiting for the end of an empty body would cost a turn of the event loop.
  const nothing = announced.length === 0 && !announced.framing;
  const trailer = nothing ? undefined : await pump(source, announced, sink, signatures);
  const data = chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks);
  const wanted = wantedOf(announced, algorithm);
  const digesting = new Digesting(wanted);
  digesting.update(data);
  const digests = digesting.digest();
  verify(announced, digests, trailer);
  return { size: data.length, md5: digests.md5, checksum: checksumOf(wanted, digests), data, writer: undefined };
}

/** Receives a body into a file. When it fails nothing is left; else whoever asked settles or abandons the file. */
export async function receiveInFile(
  source: Readable,
  announced: Announced,
  files: ContentFiles,
  { signatures, algorithm }: Receiving = {},
): Promise<Received & { readonly writer: ContentWriter }> {
  const wanted = wantedOf(announced, algorithm);
  const writer = files.create(announced.length, wanted);
  try {
    const trailer = await pump(source, announced, writer, signatures);
    const digests = await writer.finish();
    verify(announced, digests, trailer);
    await writer.publish();
    return { size: announced.length, md5: digests.md5, checksum: checksumOf(wanted, digests), data: undefined, writer };
  } catch (error) {
    await files.abandon(writer);
    throw error;
  }
}

interface WantedHere {
  readonly sha256: boolean;
  readonly checksum?: Algorithm;
}

function wantedOf({ sha256, checksum, trailer }: Announced, algorithm: Algorithm | undefined): WantedHere {
  const wanted = checksum?.algorithm ?? trailer ?? algorithm;
  return { sha256: sha256 !== undefined, ...(wanted && { checksum: wanted }) };
}

function checksumOf({ checksum: algorithm }: WantedHere, { checksum: value }: Digests): Checksum | undefined {
  return algorithm && value !== undefined ? { algorithm, value } : undefined;
}

function verify({ sha256, md5, checksum }: Announced, digests: Digests, trailer: string | undefined): void {
  if (sha256 !== undefined && sha256 !== digests.sha256) throw new S3Error('XAmzContentSHA256Mismatch');
  if (md5 !== undefined && md5 !== digests.md5) throw new S3Error('BadDigest');
  const expected = checksum?.value ?? trailer;
  if (expected !== undefined && expected !== digests.checksum) {
    throw new S3Error('BadDigest', 'The checksum of the body is not the one that was sent with it.');
  }
}
