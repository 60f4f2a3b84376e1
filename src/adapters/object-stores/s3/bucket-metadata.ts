import { CLUSTER_ADMIN } from '../../../model/service/index.ts';
import type { Bucket, BucketQuery, NewBucket } from '../../../ports/index.ts';
import type { S3Api } from './s3-api.ts';

/** What the tags of a bucket contain. */
type Tagged = Pick<NewBucket, 'owner' | 'ownerName' | 'madeFor'>;

/**
 * The tags of the Go manager (docs/go-manager.md#in-minio), so that each manager finds the buckets of the other; and one more
 * with the uid of the service, because a service name can be used again.
 */
const OWNER = 'owner';
const OWNER_NAME = 'owner_name';
const SERVICE = 'from_service';
const SERVICE_UID = 'oscar_service_uid';

/** For buckets of the administrator, the owner tag is empty if they belong to a service, and the name of the manager if not. */
export function toBucketTags({ owner, ownerName, madeFor }: Tagged, managerName: string): Record<string, string> {
  const admins = madeFor ? '' : managerName;
  return {
    [OWNER]: owner === CLUSTER_ADMIN ? admins : escape(owner),
    [OWNER_NAME]: escape(ownerName),
    ...(madeFor && { [SERVICE]: escape(madeFor.service), [SERVICE_UID]: escape(madeFor.uid) }),
  };
}

/** A bucket without tags was created by the operator of the store. */
export function parseBucketTags(tags: Readonly<Record<string, string>>, managerName: string): Tagged {
  const given = unescape(tags[OWNER] ?? '');
  const owner = given === '' || given === managerName ? CLUSTER_ADMIN : given;
  const uid = unescape(tags[SERVICE_UID] ?? '');
  return {
    owner,
    ownerName: unescape(tags[OWNER_NAME] ?? owner),
    ...(uid !== '' && { madeFor: { uid, service: unescape(tags[SERVICE] ?? '') } }),
  };
}

/** The same tags without those of the service. */
export function withoutServiceTags(tags: Readonly<Record<string, string>>): Record<string, string> {
  const { [SERVICE]: _, [SERVICE_UID]: __, ...kept } = tags;
  return kept;
}

/** True if a Go manager created it for a service of that name. Its tags do not have the uid of the service. */
export function isMadeByGoManager(tags: Readonly<Record<string, string>>, service: string): boolean {
  return tags[SERVICE_UID] === undefined && tags[SERVICE] === service;
}

/** Tags allow fewer characters than uids: other characters become `=` and the hexadecimal digits of their bytes. */
function escape(text: string): string {
  return text.replace(/[^A-Za-z0-9 +\-._:/@]/gu, (character) =>
    Array.from(Buffer.from(character), (byte) => `=${byte.toString(16).toUpperCase().padStart(2, '0')}`).join(''),
  );
}

function unescape(text: string): string {
  return text.replace(/(=[0-9A-F]{2})+/g, (escaped) => Buffer.from(escaped.replaceAll('=', ''), 'hex').toString());
}

const MADE = '.made/';

/** Names in one response. */
const PAGE = 1_000;

/** An index of the buckets of services, by the uid of the service: a store cannot search by tags. */
export class ServiceBucketIndex {
  readonly #s3: S3Api;

  constructor(s3: S3Api) {
    this.#s3 = s3;
  }

  /** Some of these buckets may no longer exist. */
  async list(uid: string): Promise<string[]> {
    const prefix = `${MADE}${encodeURIComponent(uid)}/`;
    const names: string[] = [];
    for (let after = ''; ; ) {
      const page = await this.#s3.list(this.#s3.staging, prefix, PAGE, after);
      names.push(...(page?.objects ?? []).map(({ key }) => key.slice(prefix.length)));
      if (!page?.more) return names;
      after = page.objects.at(-1)?.key ?? after;
    }
  }

  async add(name: string, uid: string): Promise<void> {
    await this.#s3.put(indexEntry(name, uid, this.#s3), '');
  }

  async remove(name: string, uid: string): Promise<void> {
    await this.#s3.remove(indexEntry(name, uid, this.#s3));
  }
}

const indexEntry = (name: string, uid: string, { staging }: S3Api) => ({
  bucket: staging,
  key: `${MADE}${encodeURIComponent(uid)}/${name}`,
});

const RESERVED = /^oscar-(staging|events)/;

/** True for buckets of the manager itself, which no user sees. */
export const isReservedBucket = (name: string) => RESERVED.test(name);

/** Checked for every bucket that is found through an index, because the index may be out of date. */
export function matchesBucketQuery(
  { owner, visibility, allowedUsers, madeFor }: Pick<Bucket, 'owner' | 'visibility' | 'allowedUsers' | 'madeFor'>,
  query: BucketQuery,
): boolean {
  if (query.madeFor !== undefined && madeFor?.uid !== query.madeFor) return false;
  const { visibleTo } = query;
  if (visibleTo === undefined || visibleTo === owner || visibility === 'public') return true;
  return visibility === 'restricted' && allowedUsers.includes(visibleTo);
}

export const bucketLockName = (bucket: string) => `bucket/${bucket}`;

/** For the operator; the caller gets the reason why the bucket could not be created. */
export const describeHalfMadeBucket = (name: string) =>
  `the bucket "${name}" could not be created completely, nor removed: the next request for it completes it`;
