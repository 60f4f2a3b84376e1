import type { IncomingMessage, ServerResponse } from 'node:http';
import { isAllowed, isReservedName, type S3Action } from '../access/authorization.ts';
import { S3Error } from '../lib/errors.ts';
import type { Limits } from '../lib/limits.ts';
import { type Element, type Elements, readXml, writeXml } from '../lib/xml.ts';
import {
  type DeclaredBody,
  type ReceivedBody,
  type ReceiveOptions,
  readDeclaredBody,
  receiveInFile,
  receiveInMemory,
} from '../payload/receive.ts';
import type { RequestTarget } from '../signature/request-target.ts';
import type { ChunkSignatures } from '../signature/signature-v4.ts';
import type { Buckets, StoreBucket } from '../store/buckets.ts';
import type { ContentFiles } from '../store/content-files.ts';
import type { EventOrigin } from '../store/events.ts';
import type { Identities, Signer } from '../store/identities.ts';
import type { Objects } from '../store/objects.ts';
import type { Uploads } from '../store/uploads.ts';

/** What operations work with. */
export interface Store {
  readonly buckets: Buckets;
  readonly objects: Objects;
  readonly uploads: Uploads;
  readonly identities: Identities;
  readonly files: ContentFiles;
  readonly limits: Limits;
  readonly region: string;
  readonly now: () => number;
  /** Removes the content of a bucket that was removed. */
  readonly empty: (bucket: number) => void;
}

/** Who signed a request, and what of its body is signed. */
export interface Authenticated {
  readonly signer: Signer;
  /** `x-amz-content-sha256`, or `UNSIGNED-PAYLOAD`. */
  readonly payload: string;
  readonly signatures: ChunkSignatures | undefined;
}

/** One request of a known caller. */
export class Exchange {
  readonly request: IncomingMessage;
  readonly target: RequestTarget;
  readonly signer: Signer;
  readonly requestId: string;
  readonly #store: Store;
  readonly #authenticated: Authenticated;
  readonly #proceed: () => void;
  readonly #header: HeaderReader;

  constructor(
    request: IncomingMessage,
    target: RequestTarget,
    authenticated: Authenticated,
    { store, requestId, proceed }: { readonly store: Store; readonly requestId: string; readonly proceed: () => void },
  ) {
    this.request = request;
    this.target = target;
    this.signer = authenticated.signer;
    this.requestId = requestId;
    this.#authenticated = authenticated;
    this.#store = store;
    this.#proceed = proceed;
    this.#header = headerReader(request);
  }

  header(name: string): string | undefined {
    return this.#header(name);
  }

  /** An `x-amz-*` header, which a presigned URL may carry in its query instead. Both are signed. */
  amzHeader(name: string): string | undefined {
    return this.header(name) ?? this.target.query.entries.find(([each]) => each.toLowerCase() === name)?.[1];
  }

  /** Names in lower case of all that `setting` has, each once. */
  amzHeaderNames(): Set<string> {
    const queries = this.target.query.entries.map(([name]) => name.toLowerCase());
    return new Set([...headerNames(this.request), ...queries].filter(isAmzHeader));
  }

  query(name: string): string | undefined {
    return this.target.query.get(name);
  }

  get origin(): EventOrigin {
    const address = this.request.socket.remoteAddress ?? '';
    return {
      principal: this.signer.principal,
      address: address.startsWith('::ffff:') ? address.slice(7) : address,
      userAgent: this.header('user-agent') ?? '',
      requestId: this.requestId,
    };
  }

  /** The bucket of the request, if the caller may do this with it. */
  authorize(action: S3Action, prefix?: string): StoreBucket {
    return this.authorizeOn(this.target.bucket, action, this.target.key, prefix);
  }

  authorizeOn(name: string, action: S3Action, key: string, prefix = ''): StoreBucket {
    const bucket = this.#store.buckets.find(name);
    if (!bucket) {
      const { kind } = this.signer.identity;
      if (isReservedName(name) && (kind === 'user' || kind === 'session')) throw new S3Error('AccessDenied');
      throw new S3Error('NoSuchBucket');
    }
    if (!isAllowed(this.signer.identity, { action, bucket, key, prefix })) throw new S3Error('AccessDenied');
    // In a request that copies, what it reads is the source.
    const isSource = action === 's3:GetObject' && this.amzHeader('x-amz-copy-source') !== undefined;
    const header = isSource ? 'x-amz-source-expected-bucket-owner' : 'x-amz-expected-bucket-owner';
    const expected = this.amzHeader(header);
    if (expected !== undefined && expected !== bucket.owner) {
      throw new S3Error('AccessDenied', `The owner of the bucket ${name} is not the one in the header ${header}.`);
    }
    return bucket;
  }

  /**
   * The bucket of the request as it is when the write happens, and only if the caller still may: while a body arrives
   * keys are revoked and buckets change.
   */
  bucketAtCommit(action: S3Action, key = this.target.key, name = this.target.bucket): () => StoreBucket {
    return () => {
      this.#store.identities.checkStillValid(this.signer);
      return this.authorizeOn(name, action, key);
    };
  }

  /** With `about` the object, `x-amz-checksum-*` are not about the body of the request. */
  declaredBody(about: 'body' | 'object' = 'body'): DeclaredBody {
    const isAboutObject = (name: string) => about === 'object' && name.startsWith('x-amz-checksum-');
    return readDeclaredBody(this.#authenticated.payload, (name) =>
      isAboutObject(name) ? undefined : this.header(name),
    );
  }

  /** The body, in memory when it is small enough to be stored inline. */
  receive(declared: DeclaredBody, receiving: ReceiveOptions = {}): Promise<ReceivedBody> {
    if (declared.length > this.#store.limits.inlineBytes) return this.receiveFile(declared, receiving);
    this.#proceed();
    const { signatures } = this.#authenticated;
    return receiveInMemory(this.request, declared, { ...receiving, signatures });
  }

  receiveFile(declared: DeclaredBody, receiving: ReceiveOptions = {}) {
    this.#proceed();
    const { signatures } = this.#authenticated;
    return receiveInFile(this.request, declared, this.#store.files, { ...receiving, signatures });
  }

  async receiveText(declared = this.declaredBody()): Promise<string> {
    if (declared.length > this.#store.limits.xmlBytes) throw new S3Error('MaxMessageLengthExceeded');
    this.#proceed();
    const { signatures } = this.#authenticated;
    const { data } = await receiveInMemory(this.request, declared, { signatures });
    return data.toString('utf8');
  }

  async receiveXml(root: string, declared = this.declaredBody()): Promise<Element> {
    return readXml(await this.receiveText(declared), root);
  }
}

type HeaderReader = (name: string) => string | undefined;

/**
 * The value of a header by its name in lower case. Signatures join the lines of a repeated header with a comma and no
 * space. `request.headers` cannot be used: node joins some headers with a comma and a space, and keeps the first line
 * of others.
 */
export function headerReader({ headersDistinct }: IncomingMessage): HeaderReader {
  return (name) => headersDistinct[name]?.join(',');
}

/** Names in lower case, each once. */
export const headerNames = ({ headersDistinct }: IncomingMessage): string[] => Object.keys(headersDistinct);

/** Headers by which S3 and MinIO are told what to do. */
export const isAmzHeader = (name: string): boolean => /^x-(amz|minio)-/i.test(name);

export type Headers = Readonly<Record<string, string | number | undefined>>;

/** What an operation answers. */
export interface S3Response {
  readonly status: number;
  readonly headers?: Headers;
  readonly body?: string | Uint8Array;
  /** Instead of a body: writes it, of the length that the headers say, and ends the response. */
  readonly stream?: (response: ServerResponse) => Promise<void>;
}

export function xml(
  root: string,
  content: Elements,
  { status = 200, headers = {} }: Partial<S3Response> = {},
): S3Response {
  return { status, headers: { 'content-type': 'application/xml', ...headers }, body: writeXml(root, content) };
}

export const NO_CONTENT: S3Response = { status: 204 };

export const quoteETag = (eTag: string) => `"${eTag}"`;

/** ISO 8601 with milliseconds, as listings have it. */
export const formatIsoDate = (time: number) => new Date(time).toISOString();

/** In whole seconds, as HTTP has it. */
export const formatHttpDate = (time: number) => new Date(time).toUTCString();
