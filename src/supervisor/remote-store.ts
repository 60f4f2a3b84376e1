import type { Readable } from 'node:stream';
import type { ObjectAt, StoreAccess } from '../cluster/index.ts';
import type { OutputFile } from './open-output.ts';

/** Throws a {@link TransferError} when the access makes no sense. */
export type OpenStore = (access: StoreAccess) => RemoteStore;

/** One store with one set of keys. Every failure is a {@link TransferError}. */
export interface RemoteStore {
  /** With an eTag: that very object, where the store knows eTags. */
  read(at: ObjectAt, eTag?: string): Promise<RemoteObject>;
  /**
   * Writes the whole file, marked with the attempt that made it where the store can keep such a mark. Resolves to its
   * eTag, where the store has them.
   */
  write(at: ObjectAt, file: OutputFile, attempt: string, signal: AbortSignal): Promise<string | undefined>;
  /** What an attempt wrote there; undefined when there is nothing, or when nobody can say who wrote it. */
  written(at: ObjectAt, signal: AbortSignal): Promise<WrittenObject | undefined>;
}

export interface WrittenObject {
  readonly attempt: string;
  readonly bytes: number;
  readonly eTag: string;
}

export interface RemoteObject {
  readonly body: Readable;
  /** As announced. */
  readonly bytes: number | undefined;
  /** Host that it comes from. */
  readonly host: string;
}

/** A transfer did not happen. The message says why, in words that end a sentence. */
export class TransferError extends Error {
  /** May it go better in a moment? */
  readonly retryable: boolean;

  constructor(message: string, options: ErrorOptions & { readonly retryable: boolean }) {
    super(message, options);
    this.name = 'TransferError';
    this.retryable = options.retryable;
  }
}

/** The address of a store as somebody wrote it. */
export function readAddress(text: string): URL {
  const address = URL.canParse(text) ? new URL(text) : undefined;
  if (address?.protocol === 'http:' || address?.protocol === 'https:') return address;
  throw new TransferError(`"${text}" is not an address of a store`, { retryable: false });
}
