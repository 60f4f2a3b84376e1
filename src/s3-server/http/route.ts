import { CHECKSUM_ALGORITHMS } from '../lib/checksum.ts';
import { S3Error } from '../lib/errors.ts';
import type { StoreDatabase } from '../store/database.ts';
import {
  answerCreateBucket,
  answerListBuckets,
  deleteBucket,
  deleteBucketCors,
  deleteBucketTagging,
  getAcl,
  getBucketCors,
  getBucketEncryption,
  getBucketLifecycle,
  getBucketLocation,
  getBucketNotification,
  getBucketPolicy,
  getBucketTagging,
  getBucketVersioning,
  getObjectLockConfiguration,
  headBucket,
  putBucketCors,
  putBucketNotification,
  putBucketTagging,
  rejectBucketPolicyChange,
} from './buckets.ts';
import { deleteObject, deleteObjects } from './delete-objects.ts';
import { type Exchange, isAmzHeader, type S3Response, type Store } from './exchange.ts';
import { getObject, getObjectAttributes, OVERRIDABLE_HEADERS } from './get-object.ts';
import { answerListObjects, listObjectsV2, listObjectVersions } from './list-objects.ts';
import {
  abortMultipartUpload,
  completeMultipartUpload,
  createMultipartUpload,
  listMultipartUploads,
  listParts,
  uploadPart,
  uploadPartCopy,
} from './multipart.ts';
import { answerCopyObject, putObject } from './put-object.ts';
import { deleteObjectTagging, getObjectTagging, putObjectTagging } from './tagging.ts';

export type Operation = (
  exchange: Exchange,
  store: Store & { readonly database: StoreDatabase },
) => S3Response | Promise<S3Response>;

interface Route extends AcceptedParameters {
  readonly run: Operation;
  /** Instead, when the request names a source to copy. */
  readonly copying?: Route;
}

/** Routes by the query that chooses them; the one without is under the empty name. */
type Routes = Readonly<Record<string, Route>>;

const LISTING = ['prefix', 'delimiter', 'max-keys', 'encoding-type', 'metadata'];
const listing: HeaderRules = { 'x-amz-optional-object-attributes': 'any' };

const VERSION = ['versionId'];

/** Ways to say that the owner of the bucket alone decides who reaches an object, which holds anyway. */
const OWNER_ONLY_ACLS = ['private', 'bucket-owner-full-control', 'bucket-owner-read'];

const described: HeaderRules = {
  'x-amz-meta-': 'any',
  'x-amz-tagging': 'any',
  'x-amz-acl': OWNER_ONLY_ACLS,
  'x-amz-storage-class': ['STANDARD'],
  'x-amz-checksum-algorithm': 'any',
};

const copied: HeaderRules = {
  'x-amz-copy-source': 'any',
  'x-amz-copy-source-if-match': 'any',
  'x-amz-copy-source-if-none-match': 'any',
  'x-amz-copy-source-if-modified-since': 'any',
  'x-amz-copy-source-if-unmodified-since': 'any',
  'x-amz-source-expected-bucket-owner': 'any',
};

const GET_OBJECT: Route = {
  run: getObject,
  query: [...VERSION, 'partNumber', ...OVERRIDABLE_HEADERS.map((name) => `response-${name}`)],
  // `x-amz-te` asks for a checksum behind the body, and an answer without one is allowed.
  headers: { 'x-amz-checksum-mode': 'any', 'x-amz-te': 'any' },
};

/** There are no locks to bypass. */
const deleting: HeaderRules = { 'x-amz-bypass-governance-retention': 'any' };

const SERVICE_ROUTES: Readonly<Record<string, Routes>> = {
  // The answer is never cut into pages, so that no page of it is too long.
  GET: { '': { run: answerListBuckets, query: ['prefix', 'bucket-region', 'max-buckets'] } },
};

const BUCKET_ROUTES: Readonly<Record<string, Routes>> = {
  GET: {
    location: { run: getBucketLocation },
    versioning: { run: getBucketVersioning },
    acl: { run: getAcl },
    policy: { run: getBucketPolicy },
    cors: { run: getBucketCors },
    tagging: { run: getBucketTagging },
    notification: { run: getBucketNotification },
    'object-lock': { run: getObjectLockConfiguration },
    lifecycle: { run: getBucketLifecycle, query: ['withUpdatedAt'] },
    encryption: { run: getBucketEncryption },
    uploads: {
      run: listMultipartUploads,
      query: ['prefix', 'delimiter', 'encoding-type', 'key-marker', 'upload-id-marker', 'max-uploads'],
    },
    versions: { run: listObjectVersions, query: [...LISTING, 'key-marker', 'version-id-marker'], headers: listing },
    'list-type': {
      run: listObjectsV2,
      query: [...LISTING, 'continuation-token', 'start-after', 'fetch-owner'],
      headers: listing,
    },
    '': { run: answerListObjects, query: [...LISTING, 'marker'], headers: listing },
  },
  HEAD: { '': { run: headBucket } },
  PUT: {
    tagging: { run: putBucketTagging },
    notification: { run: putBucketNotification, headers: { 'x-amz-skip-destination-validation': 'any' } },
    cors: { run: putBucketCors },
    policy: { run: rejectBucketPolicyChange },
    '': {
      run: answerCreateBucket,
      headers: {
        'x-amz-acl': ['private'],
        'x-amz-bucket-object-lock-enabled': ['false'],
        'x-amz-object-ownership': ['BucketOwnerEnforced'],
      },
    },
  },
  DELETE: {
    tagging: { run: deleteBucketTagging },
    cors: { run: deleteBucketCors },
    policy: { run: rejectBucketPolicyChange },
    // MinIO's clients send it with what they have emptied themselves; a bucket with objects is refused all the same.
    '': { run: deleteBucket, headers: { 'x-minio-force-delete': 'any' } },
  },
  POST: { delete: { run: deleteObjects, headers: deleting } },
};

const OBJECT_ROUTES: Readonly<Record<string, Routes>> = {
  GET: {
    uploadId: { run: listParts, query: ['max-parts', 'part-number-marker'] },
    tagging: { run: getObjectTagging, query: VERSION },
    attributes: { run: getObjectAttributes, query: VERSION, headers: { 'x-amz-object-attributes': 'any' } },
    acl: { run: getAcl, query: VERSION },
    '': GET_OBJECT,
  },
  HEAD: { '': GET_OBJECT },
  PUT: {
    uploadId: {
      run: uploadPart,
      query: ['partNumber'],
      headers: { 'x-amz-checksum-algorithm': 'any' },
      copying: { run: uploadPartCopy, headers: { ...copied, 'x-amz-copy-source-range': 'any' } },
    },
    tagging: { run: putObjectTagging, query: VERSION },
    '': {
      run: putObject,
      headers: { ...described, 'x-amz-checksum-type': ['FULL_OBJECT'] },
      copying: {
        run: answerCopyObject,
        headers: { ...described, ...copied, 'x-amz-metadata-directive': 'any', 'x-amz-tagging-directive': 'any' },
      },
    },
  },
  DELETE: {
    uploadId: { run: abortMultipartUpload },
    tagging: { run: deleteObjectTagging, query: VERSION },
    '': { run: deleteObject, query: VERSION, headers: deleting },
  },
  POST: {
    uploads: { run: createMultipartUpload, headers: { ...described, 'x-amz-checksum-type': 'any' } },
    uploadId: {
      run: completeMultipartUpload,
      headers: { 'x-amz-checksum-algorithm': 'any', 'x-amz-checksum-type': 'any', 'x-amz-mp-object-size': 'any' },
    },
  },
};

/** Finds the operation that a request asks for, and refuses a request that asks for more than the operation does. */
export function findOperation(exchange: Exchange): Operation {
  const { bucket, key, query } = exchange.target;
  const { method = '' } = exchange.request;
  const routes = tableFor(bucket, key)[method];
  if (!routes) throw new S3Error('MethodNotAllowed');
  const name = Object.keys(routes).find((each) => each !== '' && query.has(each)) ?? '';
  const route = routes[name];
  if (!route) {
    const [[first] = ['']] = query.entries.filter(([each]) => !isAmzHeader(each));
    throw new S3Error('NotImplemented', `${method}${first && ` ?${first}`} is not supported by this server.`);
  }
  const copying = exchange.amzHeader('x-amz-copy-source') === undefined ? undefined : route.copying;
  const { run, query: queries = [], headers = {} } = { ...route, ...copying };
  rejectUnknownParameters(exchange, { query: [name, ...queries], headers });
  const version = query.get('versionId');
  if (version && version !== 'null') throw new S3Error('NoSuchVersion');
  return run;
}

function tableFor(bucket: string, key: string): Readonly<Record<string, Routes>> {
  if (bucket === '') return SERVICE_ROUTES;
  return key === '' ? BUCKET_ROUTES : OBJECT_ROUTES;
}

/**
 * What requests of one operation may carry besides what every request may. Everything else is refused: a query or a
 * header that this server does not know may ask for another operation, or for a guarantee that it does not give.
 */
export interface AcceptedParameters {
  /** Names of queries, besides the one that chooses the operation. */
  readonly query?: readonly string[];
  /** `x-amz-*` headers by name; a name that ends in `-` stands for all that begin with it. */
  readonly headers?: HeaderRules;
}

/** `any`: the operation reads the value, or the header changes nothing here. A list: only these values change nothing. */
export type HeaderRules = Readonly<Record<string, 'any' | readonly string[]>>;

/** Headers, or queries of presigned URLs, that every request may have. */
const COMMON_HEADERS: HeaderRules = {
  // The signature.
  'x-amz-algorithm': 'any',
  'x-amz-content-sha256': 'any',
  'x-amz-credential': 'any',
  'x-amz-date': 'any',
  'x-amz-expires': 'any',
  'x-amz-security-token': 'any',
  'x-amz-signature': 'any',
  'x-amz-signedheaders': 'any',
  // The body of the request. The algorithm is said beside the checksum itself.
  ...Object.fromEntries(CHECKSUM_ALGORITHMS.map((algorithm) => [`x-amz-checksum-${algorithm}`, 'any'] as const)),
  'x-amz-decoded-content-length': 'any',
  'x-amz-sdk-checksum-algorithm': 'any',
  'x-amz-trailer': 'any',
  // Checked by `Exchange.authorise`.
  'x-amz-expected-bucket-owner': 'any',
  // Clients that introduce themselves, and one that offers to pay: nobody is charged here.
  'x-amz-api-version': 'any',
  'x-amz-request-payer': 'any',
  'x-amz-user-agent': 'any',
};

/** Queries that every request may have: signatures of version 2, which also sign two headers that clients put there. */
const COMMON_QUERIES = new Set(['AWSAccessKeyId', 'Expires', 'Signature', 'content-md5', 'content-type']);

export function rejectUnknownParameters(exchange: Exchange, { query = [], headers = {} }: AcceptedParameters): void {
  const { method } = exchange.request;
  for (const [name] of exchange.target.query.entries) {
    if (isAmzHeader(name) || COMMON_QUERIES.has(name) || query.includes(name)) continue;
    // S3 ignores queries that begin with `x-`: `x-id` says which operation a client believes to call.
    if (/^x-/i.test(name)) continue;
    throw new S3Error('NotImplemented', `${method} ?${name} is not supported by this server.`);
  }
  for (const name of exchange.amzHeaderNames()) {
    const values = COMMON_HEADERS[name] ?? headers[name] ?? findPrefixRule(headers, name);
    const value = exchange.amzHeader(name) ?? '';
    if (values === 'any' || values?.some((each) => each.toLowerCase() === value.toLowerCase())) continue;
    const instead = values ? `: leave it out, or use ${values.join(' or ')}` : ' for this operation';
    throw new S3Error('NotImplemented', `The header ${name}: ${value} is not supported by this server${instead}.`);
  }
  // RFC 9110 §14.5: a server that took it for the whole object would destroy the rest.
  if (method === 'PUT' && exchange.header('content-range') !== undefined) {
    throw new S3Error('NotImplemented', 'The header content-range is not supported: upload the object in parts.');
  }
}

function findPrefixRule(headers: HeaderRules, name: string): HeaderRules[string] | undefined {
  return Object.entries(headers).find(([each]) => each.endsWith('-') && name.startsWith(each))?.[1];
}
