import { isReservedName, reaches } from '../access/allowed.ts';
import { S3Error } from '../errors.ts';
import { type Answer, isoDate, NO_CONTENT, xml } from './answer.ts';
import type { Exchange, Store } from './exchange.ts';

/** Buckets read at once from the database. */
const PAGE = 1000;

/** Those that the caller reaches. */
export function listBuckets(exchange: Exchange, { buckets }: Store): Answer {
  const { identity, principal } = exchange.signer;
  const Bucket: { Name: string; CreationDate: string }[] = [];
  // What the policy of a job names is found by looking at all.
  const asked =
    identity.kind === 'user' || identity.kind === 'session'
      ? { limit: PAGE, reachableBy: identity.user }
      : { limit: PAGE };
  for (let page = buckets.page(asked); page.length > 0; ) {
    for (const bucket of page) {
      if (reaches(identity, bucket)) Bucket.push({ Name: bucket.name, CreationDate: isoDate(bucket.created) });
    }
    page = page.length < PAGE ? [] : buckets.page({ ...asked, after: page.at(-1)?.name ?? '' });
  }
  return xml('ListAllMyBucketsResult', { Owner: { ID: principal, DisplayName: principal }, Buckets: { Bucket } });
}

/** A private bucket of the caller. Keys of jobs and narrowed sessions make none. */
export async function createBucket(exchange: Exchange, { buckets, identities }: Store): Promise<Answer> {
  const { bucket: name } = exchange.target;
  const { identity, principal: owner } = exchange.signer;
  const may =
    identity.kind === 'manager' || identity.kind === 'user' || (identity.kind === 'session' && !identity.policy);
  if (!may) throw new S3Error('AccessDenied', 'These keys may not create buckets.');
  if (isReservedName(name) && identity.kind !== 'manager') {
    throw new S3Error('AccessDenied', `Names that begin like ${name} are reserved for OSCAR: choose another one.`);
  }
  // The location that it may name says nothing here: there is one.
  await exchange.receiveText();
  identities.checkStill(exchange.signer);
  const existing = await buckets.create({ name, owner });
  if (!existing) return { status: 200, headers: { location: `/${name}` } };
  throw new S3Error(existing.owner === owner ? 'BucketAlreadyOwnedByYou' : 'BucketAlreadyExists');
}

export function headBucket(exchange: Exchange, { region }: Store): Answer {
  exchange.authorise('s3:ListBucket');
  return { status: 200, headers: { 'x-amz-bucket-region': region } };
}

export async function deleteBucket(exchange: Exchange, { buckets, empty }: Store): Promise<Answer> {
  exchange.authorise('s3:DeleteBucket');
  const still = exchange.still('s3:DeleteBucket');
  empty(await buckets.remove(exchange.target.bucket, false, () => void still()));
  return NO_CONTENT;
}

export function getBucketLocation(exchange: Exchange, { region }: Store): Answer {
  exchange.authorise('s3:GetBucketLocation');
  // S3: the first region is an empty text.
  const body = region === 'us-east-1' ? '' : region;
  const namespace = 'http://s3.amazonaws.com/doc/2006-03-01/';
  return {
    status: 200,
    headers: { 'content-type': 'application/xml' },
    body: `<?xml version="1.0" encoding="UTF-8"?>\n<LocationConstraint xmlns="${namespace}">${body}</LocationConstraint>`,
  };
}
