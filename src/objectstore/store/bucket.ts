import type { BucketFacts, Visibility } from '../access/allowed.ts';

/** A prefix whose new objects make events. */
export interface Rule {
  readonly id: string;
  readonly prefix: string;
  readonly suffix: string;
}

export interface Bucket extends BucketFacts {
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
export interface Usage {
  readonly objects: number;
  readonly bytes: number;
}

export interface NewBucket {
  readonly name: string;
  readonly owner: string;
  readonly visibility?: Visibility;
  readonly allowedUsers?: readonly string[];
  readonly tags?: Readonly<Record<string, string>>;
  readonly madeBy?: string;
  readonly quota?: number;
}

/** What is not mentioned stays; null removes. */
export interface BucketChange {
  readonly owner?: string;
  readonly visibility?: Visibility;
  readonly allowedUsers?: readonly string[];
  readonly tags?: Readonly<Record<string, string>>;
  readonly madeBy?: string | null;
  readonly cors?: string | null;
  readonly quota?: number | null;
}

/** Does a new object of this key make an event? One, however many rules say so. */
export function makesEvent({ rules }: Pick<Bucket, 'rules'>, key: string): boolean {
  return rules.some(({ prefix, suffix }) => key.startsWith(prefix) && key.endsWith(suffix));
}
