import type { IncomingMessage } from 'node:http';
import type { Action } from '../access/actions.ts';
import { allowed, isReservedName } from '../access/allowed.ts';
import { S3Error } from '../errors.ts';
import type { Limits } from '../limits.ts';
import { type Announced, readAnnounced } from '../payload/announced.ts';
import { type Received, type Receiving, receiveInFile, receiveInMemory } from '../payload/receive.ts';
import type { ChunkSignatures } from '../signature/chunk-signature.ts';
import type { Target } from '../signature/target.ts';
import type { Bucket } from '../store/bucket.ts';
import type { Buckets } from '../store/buckets.ts';
import type { ContentFiles } from '../store/content-files.ts';
import type { Origin } from '../store/event.ts';
import type { Identities, Signer } from '../store/identities.ts';
import type { Objects } from '../store/objects.ts';
import type { Uploads } from '../store/uploads.ts';
import { type Element, readXml } from '../xml/read-xml.ts';

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
  /** In the query: then `x-amz-*` parameters of the query are headers that the signer has put there. */
  readonly presigned: boolean;
}

/** One request of a known caller. */
export class Exchange {
  readonly request: IncomingMessage;
  readonly target: Target;
  readonly signer: Signer;
  readonly requestId: string;
  readonly #store: Store;
  readonly #authenticated: Authenticated;
  readonly #proceed: () => void;

  constructor(
    request: IncomingMessage,
    target: Target,
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
  }

  header(name: string): string | undefined {
    const value = this.request.headers[name];
    return Array.isArray(value) ? value.join(',') : value;
  }

  /** A header that presigned URLs may carry in their query instead. */
  setting(name: string): string | undefined {
    return this.header(name) ?? (this.#authenticated.presigned ? this.target.query.get(name) : undefined);
  }

  query(name: string): string | undefined {
    return this.target.query.get(name);
  }

  get origin(): Origin {
    const address = this.request.socket.remoteAddress ?? '';
    return {
      principal: this.signer.principal,
      address: address.startsWith('::ffff:') ? address.slice(7) : address,
      userAgent: this.header('user-agent') ?? '',
      requestId: this.requestId,
    };
  }

  /** The bucket of the request, if the caller may do this with it. */
  authorise(action: Action, prefix?: string): Bucket {
    return this.authoriseOn(this.target.bucket, action, this.target.key, prefix);
  }

  authoriseOn(name: string, action: Action, key: string, prefix = ''): Bucket {
    const bucket = this.#store.buckets.find(name);
    if (!bucket) {
      const { kind } = this.signer.identity;
      if (isReservedName(name) && (kind === 'user' || kind === 'session')) throw new S3Error('AccessDenied');
      throw new S3Error('NoSuchBucket');
    }
    if (!allowed(this.signer.identity, { action, bucket, key, prefix })) throw new S3Error('AccessDenied');
    return bucket;
  }

  /**
   * The bucket of the request as it is when the write happens, and only if the caller still may: while a body arrives
   * keys are revoked and buckets change.
   */
  still(action: Action, key = this.target.key, name = this.target.bucket): () => Bucket {
    return () => {
      this.#store.identities.checkStill(this.signer);
      return this.authoriseOn(name, action, key);
    };
  }

  announced(): Announced {
    return readAnnounced(this.#authenticated.payload, (name) => this.header(name));
  }

  /** The body, in memory when it is small enough to be stored inline. */
  receive(announced: Announced, receiving: Receiving = {}): Promise<Received> {
    if (announced.length > this.#store.limits.inlineBytes) return this.receiveFile(announced, receiving);
    this.#proceed();
    const { signatures } = this.#authenticated;
    return receiveInMemory(this.request, announced, { ...receiving, signatures });
  }

  receiveFile(announced: Announced, receiving: Receiving = {}) {
    this.#proceed();
    const { signatures } = this.#authenticated;
    return receiveInFile(this.request, announced, this.#store.files, { ...receiving, signatures });
  }

  async receiveText(limit = this.#store.limits.xmlBytes): Promise<string> {
    const announced = this.announced();
    if (announced.length > limit) throw new S3Error('MaxMessageLengthExceeded');
    this.#proceed();
    const { signatures } = this.#authenticated;
    const { data } = await receiveInMemory(this.request, announced, { signatures });
    return data.toString('utf8');
  }

  async receiveXml(root: string): Promise<Element> {
    return readXml(await this.receiveText(), root);
  }
}
