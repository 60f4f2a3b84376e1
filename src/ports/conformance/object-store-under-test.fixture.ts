import { GetObjectCommand, HeadObjectCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { Secret } from '../../lib/secret.ts';
import type { NewBucket, ObjectStore, StoreKeys } from '../object-store.ts';

/** A store to be tested, and where S3 clients reach it. */
export interface StoreUnderTest {
  readonly store: ObjectStore;
  readonly endpoint: string;
  readonly region: string;
  /** In whose name it reports what the manager places, where it cannot do that in the name of others. */
  readonly writesAs?: string;
  /** Does it give no keys at all for what its policies take for a pattern? */
  readonly refusesPatterns?: boolean;
  /** With which everything is done where there are no users. */
  readonly operator?: StoreKeys;
  /** What it has reported of new objects in this bucket, in order. */
  reported(bucket: string): Promise<{ readonly key: string; readonly principal?: string }[]>;
  close(): Promise<void>;
}

/** What not every store can do, with the reason, which is printed. */
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

/** Alice's, unless something else is said. */
export const bucket = (name: string, more: Partial<NewBucket> = {}): NewBucket => ({
  name,
  owner: 'alice',
  ownerName: 'Alice',
  visibility: 'private',
  allowedUsers: [],
  ...more,
});
