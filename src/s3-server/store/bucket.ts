import type { BucketFacts, BucketVisibility } from '../access/allowed.ts';
import { S3Error } from '../lib/errors.ts';

/** A prefix whose new objects make events. */
export interface Rule {
  readonly id: string;
  readonly prefix: string;
  readonly suffix: string;
}

export interface StoreBucket extends BucketFacts {
  readonly id: number;
  readonly tags: Readonly<Record<string, string>>;
  /** Who made it for whom, in the manager's words: the uid of a service. */
  readonly madeBy: string | undefined;
  /** Its CORS configuration, as it was given. */
  readonly cors: string | undefined;
  /** Bytes. */
  readonly quota: number | undefined;
  /** Milliseconds. */
  readonly created: number;
  readonly rules: readonly Rule[];
}

/** Objects and bytes, exact: they change in the transaction that changes an object. */
export interface BucketUsageCount {
  readonly objects: number;
  readonly bytes: number;
}

export interface NewStoreBucket {
  readonly name: string;
  readonly owner: string;
  readonly visibility?: BucketVisibility;
  readonly allowedUsers?: readonly string[];
  readonly tags?: Readonly<Record<string, string>>;
  readonly madeBy?: string;
  readonly quota?: number;
}

/** What is not mentioned stays; null removes. */
export interface StoreBucketChange {
  readonly owner?: string;
  readonly visibility?: BucketVisibility;
  readonly allowedUsers?: readonly string[];
  readonly tags?: Readonly<Record<string, string>>;
  readonly madeBy?: string | null;
  readonly cors?: string | null;
  readonly quota?: number | null;
}

/** Does a new object of this key make an event? One, however many rules say so. */
export function makesEvent({ rules }: Pick<StoreBucket, 'rules'>, key: string): boolean {
  return rules.some(({ prefix, suffix }) => key.startsWith(prefix) && key.endsWith(suffix));
}

/** S3's rules for the name of a bucket. Labels and dots only, so that no name is a path or a host address. */
function isBucketName(name: string): boolean {
  return (
    /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(name) &&
    !/\.\.|\.-|-\./.test(name) &&
    !/^\d{1,3}(\.\d{1,3}){3}$/.test(name)
  );
}

export function checkBucketName(name: string): void {
  if (isBucketName(name)) return;
  throw new S3Error(
    'InvalidBucketName',
    'The name of a bucket has 3 to 63 characters: small letters, digits, dots and dashes, with a letter or digit at both ends.',
  );
}
