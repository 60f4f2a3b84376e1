import { CLUSTER_ADMIN } from '../../../model/service/index.ts';
import type { Bucket, BucketQuery, NewBucket } from '../../../ports/index.ts';
import type { S3Api } from './s3-api.ts';

/** What the tags of a bucket say of it. */
type Tagged = Pick<NewBucket, 'owner' | 'ownerName' | 'madeFor'>;

/**
 * Tags of the Go manager (docs/go-manager.md#in-minio), so that each finds the other's buckets, and one of ours: which
 * service of that name it was.
 */
const OWNER = 'owner';
const OWNER_NAME = 'owner_name';
const SERVICE = 'from_service';
const SERVICE_UID = 'oscar_service_uid';

/** The owner of a bucket of the administrator: of a service nobody, otherwise the manager by its name. */
export function toBucketTags({ owner, ownerName, madeFor }: Tagged, managerName: string): Record<string, string> {
  const admins = madeFor ? '' : managerName;
  return {
    [OWNER]: owner === CLUSTER_ADMIN ? admins : escape(owner),
    [OWNER_NAME]: escape(ownerName),
    ...(madeFor && { [SERVICE]: escape(madeFor.service), [SERVICE_UID]: escape(madeFor.uid) }),
  };
}

/** A bucket without tags was made by somebody who administers the store. */
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

/** The same, without the service that it was made for. */
export function withoutServiceTags(tags: Readonly<Record<string, string>>): Record<string, string> {
  const { [SERVICE]: _, [SERVICE_UID]: __, ...kept } = tags;
  return kept;
}

/** Did a Go manager make it for the service of that name? Which one of that name, its tags do not say. */
export function isMadeByGoManager(tags: Readonly<Record<string, string>>, service: string): boolean {
  return tags[SERVICE_UID] === undefined && tags[SERVICE] === service;
}

/** A tag holds fewer characters than a uid: others are `=` and the digits of their bytes. */
function escape(text: string): string {
  return text.replace(/[^A-Za-z0-9 +\-._:/@]/gu, (character) =>
    Array.from(Buffer.from(character), (byte) => `=${byte.toString(16).toUpperCase().padStart(2, '0')}`).join(''),
  );
}

function unescape(text: string): string {
  return text.replace(/(=[0-9A-F]{2})+/g, (escaped) => Buffer.from(escaped.replaceAll('=', ''), 'hex').toString());
}

const MADE = '.made/';

/** Names that one request gives. */
const PAGE = 1_000;

/** The buckets that were made for services, by the uid of the service: a store finds none by what is said of it. */
export class ServiceBucketIndex {
  readonly #s3: S3Api;

  constructor(s3: S3Api) {
    this.#s3 = s3;
  }

  /** Some may be gone. */
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

/** Is it the manager's own, which nobody meets? */
export const isReservedBucket = (name: string) => RESERVED.test(name);

/** Whatever said where to look: it may be older than the bucket. */
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

/** For the operator, while whoever wanted the bucket is told why it could not be made. */
export const describeHalfMadeBucket = (name: string) =>
  `the bucket "${name}" could not be made, nor what there is of it be removed: it is finished when somebody next asks for it`;
