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
import type { ContentFiles } from '../store/contents.ts';
import type { EventOrigin } from '../store/events.ts';
import type { Identities, Signer } from '../store/identities.ts';
import type { Objects } from '../store/objects.ts';
import type { Uploads } from '../store/uploads.ts';

/** The parts of the store that operations use. */
export interface Store {
  readonly buckets: Buckets;
  readonly objects: Objects;
  readonly uploads: Uploads;
  readonly identities: Identities;
  readonly files: ContentFiles;
  readonly limits: Limits;
  readonly region: string;
  readonly now: () => number;
  /** Why nothing can be uploaded now; undefined while there is enough disk space. */
  readonly shortage: () => string | undefined;
  /** Removes the content of a removed bucket in the background. */
  readonly empty: (bucket: number) => void;
}

/** The signer of a request, and how its body is signed. */
export interface Authenticated {
  readonly signer: Signer;
  /** `x-amz-content-sha256`, or `UNSIGNED-PAYLOAD`. */
  readonly payload: string;
  readonly signatures: ChunkSignatures | undefined;
}

/** One authenticated request. */
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
    return this.header(name) ?? this.target.query.getIgnoringCase(name);
  }

  /** The names in lower case of all headers that `amzHeader` finds, each once. */
  amzHeaderNames(): Set<string> {
    return new Set([...headerNames(this.request), ...this.target.query.lowerCaseNames()].filter(isAmzHeader));
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

  /** Returns the bucket of the request. Throws if the caller is not allowed to do this. */
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
    // If the request copies an object, the object that it reads is the source.
    const isSource = action === 's3:GetObject' && this.amzHeader('x-amz-copy-source') !== undefined;
    const header = isSource ? 'x-amz-source-expected-bucket-owner' : 'x-amz-expected-bucket-owner';
    const expected = this.amzHeader(header);
    if (expected !== undefined && expected !== bucket.owner) {
      throw new S3Error('AccessDenied', `The owner of the bucket ${name} is not the owner in the header ${header}.`);
    }
    return bucket;
  }

  /**
   * Returns a function for the write transaction. It checks the caller's keys and rights again and returns the bucket:
   * keys may be revoked and buckets may change while a body arrives.
   */
  bucketAtCommit(action: S3Action, key = this.target.key, name = this.target.bucket): () => StoreBucket {
    return () => {
      this.#store.identities.checkStillValid(this.signer);
      return this.authorizeOn(name, action, key);
    };
  }

  /**
   * What the headers declare about the body. With `object`, the `x-amz-checksum-*` headers describe the object instead.
   */
  declaredBody(about: 'body' | 'object' = 'body'): DeclaredBody {
    const isAboutObject = (name: string) => about === 'object' && name.startsWith('x-amz-checksum-');
    return readDeclaredBody(this.#authenticated.payload, (name) =>
      isAboutObject(name) ? undefined : this.header(name),
    );
  }

  /** Receives the body: in memory if it is small enough to be stored inline, otherwise in a file. */
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
 * Reads a header by its name in lower case. Signatures join the lines of a repeated header with a comma and no space.
 * `request.headers` cannot be used: Node.js joins some headers with a comma and a space, and keeps only the first line
 * of others.
 */
export function headerReader({ headersDistinct }: IncomingMessage): HeaderReader {
  return (name) => headersDistinct[name]?.join(',');
}

/** The names in lower case, each once. */
export const headerNames = ({ headersDistinct }: IncomingMessage): string[] => Object.keys(headersDistinct);

/** The headers that belong to the protocols of S3 and MinIO. */
export const isAmzHeader = (name: string): boolean => /^x-(amz|minio)-/i.test(name);

export type Headers = Readonly<Record<string, string | number | undefined>>;

/** The response of an operation. */
export interface S3Response {
  readonly status: number;
  readonly headers?: Headers;
  readonly body?: string | Uint8Array;
  /** Instead of `body`: writes a body of the length in the headers, then ends the response. */
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

/** ISO 8601 with milliseconds, as in listings. */
export const formatIsoDate = (time: number) => new Date(time).toISOString();

/** The date format of HTTP, in whole seconds. */
export const formatHttpDate = (time: number) => new Date(time).toUTCString();
