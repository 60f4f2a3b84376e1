import { GetObjectCommand, HeadObjectCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { Secret } from '../../lib/secret.ts';
import type { NewBucket, ObjectStore, StoreKeys } from '../object-store.ts';

/** A store under test, and where S3 clients reach it. */
export interface StoreUnderTest {
  readonly store: ObjectStore;
  readonly endpoint: string;
  readonly region: string;
  /** The principal of events for objects that the manager places, if the store cannot report other principals. */
  readonly writesAs?: string;
  /** Does it refuse to issue keys for a name that its policies would read as a pattern? */
  readonly refusesPatterns?: boolean;
  /** The keys for all requests, if the store has no users. */
  readonly operator?: StoreKeys;
  /** The events that it has reported for new objects of this bucket, in order. */
  reported(bucket: string): Promise<{ readonly key: string; readonly principal?: string }[]>;
  close(): Promise<void>;
}

/** Guarantees that a store does not give, and why. The reason is printed. */
export type Cannot = Partial<Record<'users' | 'quotas' | 'job keys', string>>;

export type SomeKeys = StoreKeys & { readonly sessionToken?: Secret };

/** An S3 client with these keys. */
export function storeClient({ endpoint, region }: Pick<StoreUnderTest, 'endpoint' | 'region'>, keys: SomeKeys) {
  const { accessKey, secretKey, sessionToken } = keys;
  const client = new S3Client({
    endpoint,
    region,
    forcePathStyle: true,
    credentials: {
      accessKeyId: accessKey.reveal(),
      secretAccessKey: secretKey.reveal(),
      ...(sessionToken && { sessionToken: sessionToken.reveal() }),
    },
  });
  return {
    client,
    put: (Bucket: string, Key: string, Body: string | Uint8Array = 'x', more: { ContentType?: string } = {}) =>
      client.send(new PutObjectCommand({ Bucket, Key, Body, ...more })),
    get: (Bucket: string, Key: string) => client.send(new GetObjectCommand({ Bucket, Key })),
    head: (Bucket: string, Key: string) => client.send(new HeadObjectCommand({ Bucket, Key })),
  };
}

export const keysOf = (uid: string, secret = `secret-of-${uid}`): StoreKeys => ({
  accessKey: new Secret(uid),
  secretKey: new Secret(secret),
});

/** A bucket of Alice, unless `more` says otherwise. */
export const bucket = (name: string, more: Partial<NewBucket> = {}): NewBucket => ({
  name,
  owner: 'alice',
  ownerName: 'Alice',
  visibility: 'private',
  allowedUsers: [],
  ...more,
});
