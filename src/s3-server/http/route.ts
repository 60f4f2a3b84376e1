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
} from './bucket-operations.ts';
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
  /** Replaces this route if the request names a source to copy. */
  readonly copying?: Route;
}

/** Routes by the query parameter that selects them. The empty name is the route without such a parameter. */
type Routes = Readonly<Record<string, Route>>;

const LISTING = ['prefix', 'delimiter', 'max-keys', 'encoding-type', 'metadata'];
const listing: HeaderRules = { 'x-amz-optional-object-attributes': 'any' };

const VERSION = ['versionId'];

/** ACLs which say that only the bucket's owner decides who reaches an object. That is always so on this server. */
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
  // `x-amz-te` asks for a checksum after the body; a response without one is allowed.
  headers: { 'x-amz-checksum-mode': 'any', 'x-amz-te': 'any' },
};

/** This server has no object locks, so there is nothing to bypass. */
const deleting: HeaderRules = { 'x-amz-bypass-governance-retention': 'any' };

const SERVICE_ROUTES: Readonly<Record<string, Routes>> = {
  // The list of buckets has one page, so `max-buckets` changes nothing.
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
    // MinIO's clients send this header after they emptied the bucket themselves. A bucket with objects is still
    // rejected.
    '': { run: deleteBucket, headers: { 'x-minio-force-delete': 'any' } },
  },
  POST: { delete: { run: deleteObjects, headers: deleting } },
};

/**
 * Rejects uploads of users while there is little disk space. Jobs that run already may use what is left for their results.
 * Copies share the content of their source, and an upload whose parts are here can be completed.
 */
function unlessLow(operation: Operation): Operation {
  return (exchange, store) => {
    const shortage = exchange.signer.identity.kind === 'job' ? undefined : store.shortage();
    if (shortage !== undefined) throw new S3Error('XMinioStorageFull', `${shortage}.`);
    return operation(exchange, store);
  };
}

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
      run: unlessLow(uploadPart),
      query: ['partNumber'],
      headers: { 'x-amz-checksum-algorithm': 'any' },
      copying: { run: unlessLow(uploadPartCopy), headers: { ...copied, 'x-amz-copy-source-range': 'any' } },
    },
    tagging: { run: putObjectTagging, query: VERSION },
    '': {
      run: unlessLow(putObject),
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
    uploads: { run: unlessLow(createMultipartUpload), headers: { ...described, 'x-amz-checksum-type': 'any' } },
    uploadId: {
      run: completeMultipartUpload,
      headers: { 'x-amz-checksum-algorithm': 'any', 'x-amz-checksum-type': 'any', 'x-amz-mp-object-size': 'any' },
    },
  },
};

/**
 * Finds the operation of a request. Rejects a request with parameters that the operation does not support (decision
 * 0049).
 */
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

/** How a request selects an operation. */
export interface OperationSelector {
  readonly level: 'service' | 'bucket' | 'object';
  readonly method: string;
  /** The query parameter; empty if the operation has none. */
  readonly query: string;
  /** Whether the request names a source to copy. */
  readonly copying: boolean;
}

/** All operations of the store, for tests that must hold for each of them. */
export function listOperations(): OperationSelector[] {
  const levels = { service: SERVICE_ROUTES, bucket: BUCKET_ROUTES, object: OBJECT_ROUTES } as const;
  return Object.entries(levels).flatMap(([level, methods]) =>
    Object.entries(methods).flatMap(([method, routes]) =>
      Object.entries(routes).flatMap(([query, { copying }]) => {
        const selector = { level: level as keyof typeof levels, method, query };
        return [{ ...selector, copying: false }, ...(copying ? [{ ...selector, copying: true }] : [])];
      }),
    ),
  );
}

function tableFor(bucket: string, key: string): Readonly<Record<string, Routes>> {
  if (bucket === '') return SERVICE_ROUTES;
  return key === '' ? BUCKET_ROUTES : OBJECT_ROUTES;
}

/**
 * The parameters that requests of one operation may have, besides those that every request may have. All others are
 * rejected: an unknown query parameter or header may ask for another operation, or for a guarantee that this server
 * does not give.
 */
export interface AcceptedParameters {
  /** Names of query parameters, besides the one that selects the operation. */
  readonly query?: readonly string[];
  /** `x-amz-*` headers by name. A name that ends in `-` is a prefix. */
  readonly headers?: HeaderRules;
}

/** `any`: the operation reads the value, or the header has no effect here. A list: only these values have no effect. */
export type HeaderRules = Readonly<Record<string, 'any' | readonly string[]>>;

/** Headers, or query parameters of presigned URLs, that every request may have. */
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
  // The body of the request. `x-amz-sdk-checksum-algorithm` repeats the name of the checksum header.
  ...Object.fromEntries(CHECKSUM_ALGORITHMS.map((algorithm) => [`x-amz-checksum-${algorithm}`, 'any'] as const)),
  'x-amz-decoded-content-length': 'any',
  'x-amz-sdk-checksum-algorithm': 'any',
  'x-amz-trailer': 'any',
  // Checked by `Exchange.authorise`.
  'x-amz-expected-bucket-owner': 'any',
  // Identification of clients, and the offer to pay for the request: this server charges nobody.
  'x-amz-api-version': 'any',
  'x-amz-request-payer': 'any',
  'x-amz-user-agent': 'any',
};

/**
 * Query parameters that every request may have: version 2 signatures, and two signed headers that clients move there.
 */
const COMMON_QUERIES = new Set(['AWSAccessKeyId', 'Expires', 'Signature', 'content-md5', 'content-type']);

export function rejectUnknownParameters(exchange: Exchange, { query = [], headers = {} }: AcceptedParameters): void {
  const { method } = exchange.request;
  for (const [name] of exchange.target.query.entries) {
    if (isAmzHeader(name) || COMMON_QUERIES.has(name) || query.includes(name)) continue;
    // S3 ignores query parameters that begin with `x-`: in `x-id` an SDK names the operation that it calls.
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
  // RFC 9110 §14.5: a server that ignored the header would replace the whole object by the range.
  if (method === 'PUT' && exchange.header('content-range') !== undefined) {
    throw new S3Error('NotImplemented', 'The header content-range is not supported: upload the object in parts.');
  }
}

function findPrefixRule(headers: HeaderRules, name: string): HeaderRules[string] | undefined {
  return Object.entries(headers).find(([each]) => each.endsWith('-') && name.startsWith(each))?.[1];
}
