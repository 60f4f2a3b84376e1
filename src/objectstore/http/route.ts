import { S3Error } from '../errors.ts';
import type { Target } from '../signature/target.ts';
import type { Database } from '../store/database.ts';
import type { Answer } from './answer.ts';
import {
  deleteBucketCors,
  deleteBucketTagging,
  getAcl,
  getBucketCors,
  getBucketNotification,
  getBucketPolicy,
  getBucketTagging,
  getBucketVersioning,
  noEncryption,
  noLifecycle,
  noObjectLock,
  putBucketCors,
  putBucketNotification,
  putBucketTagging,
  refuseBucketPolicy,
} from './bucket-settings.ts';
import { createBucket, deleteBucket, getBucketLocation, headBucket, listBuckets } from './buckets.ts';
import { copyObject } from './copy-object.ts';
import { deleteObject, deleteObjects } from './delete-objects.ts';
import type { Exchange, Store } from './exchange.ts';
import { getObject, getObjectAttributes } from './get-object.ts';
import { listObjects, listObjectsV2, listObjectVersions } from './list-objects.ts';
import {
  abortMultipartUpload,
  completeMultipartUpload,
  createMultipartUpload,
  listMultipartUploads,
  listParts,
} from './multipart.ts';
import { deleteObjectTagging, getObjectTagging, putObjectTagging } from './object-tagging.ts';
import { putObject } from './put-object.ts';
import { uploadPart, uploadPartCopy } from './upload-part.ts';

export type Operation = (
  exchange: Exchange,
  store: Store & { readonly database: Database },
) => Answer | Promise<Answer>;

/** Operations by the query that chooses them; the one without is under the empty name. */
type Choices = Readonly<Record<string, Operation>>;

const ON_BUCKET: Readonly<Record<string, Choices>> = {
  GET: {
    location: getBucketLocation,
    versioning: getBucketVersioning,
    acl: getAcl,
    policy: getBucketPolicy,
    cors: getBucketCors,
    tagging: getBucketTagging,
    notification: getBucketNotification,
    'object-lock': noObjectLock,
    lifecycle: noLifecycle,
    encryption: noEncryption,
    uploads: listMultipartUploads,
    versions: listObjectVersions,
    'list-type': listObjectsV2,
    '': listObjects,
  },
  HEAD: { '': headBucket },
  PUT: {
    tagging: putBucketTagging,
    notification: putBucketNotification,
    cors: putBucketCors,
    policy: refuseBucketPolicy,
    '': createBucket,
  },
  DELETE: { tagging: deleteBucketTagging, cors: deleteBucketCors, policy: refuseBucketPolicy, '': deleteBucket },
  POST: { delete: deleteObjects },
};

const ON_OBJECT: Readonly<Record<string, Choices>> = {
  GET: { uploadId: listParts, tagging: getObjectTagging, attributes: getObjectAttributes, acl: getAcl, '': getObject },
  HEAD: { '': getObject },
  PUT: { uploadId: uploadPart, tagging: putObjectTagging, '': putObject },
  DELETE: { uploadId: abortMultipartUpload, tagging: deleteObjectTagging, '': deleteObject },
  POST: { uploads: createMultipartUpload, uploadId: completeMultipartUpload },
};

/** Queries that would mean another operation, which there is not: to do the ordinary one instead would be wrong. */
const UNSUPPORTED = new Set(
  (
    'accelerate acl analytics encryption events intelligent-tiering inventory legal-hold lifecycle logging metrics ' +
    'object-lock ownershipControls policyStatus publicAccessBlock replication requestPayment restore retention select ' +
    'torrent versioning website'
  ).split(' '),
);

/** Which operation a request asks for. */
export function routeOf(method: string, { bucket, key, query }: Target, isCopy: boolean): Operation {
  if (bucket === '') {
    if (method === 'GET') return listBuckets;
    throw new S3Error('MethodNotAllowed');
  }
  const choices = (key === '' ? ON_BUCKET : ON_OBJECT)[method];
  if (!choices) throw new S3Error('MethodNotAllowed');
  const version = query.get('versionId');
  if (version && version !== 'null') throw new S3Error('NoSuchVersion');
  const name = Object.keys(choices).find((each) => each !== '' && query.has(each));
  const unsupported = query.entries.find(([each]) => UNSUPPORTED.has(each));
  if (name === undefined && unsupported) {
    throw new S3Error('NotImplemented', `${method} ?${unsupported[0]} is not supported by this server.`);
  }
  const operation = choices[name ?? ''];
  if (!operation) throw new S3Error('NotImplemented');
  if (isCopy && operation === putObject) return copyObject;
  return isCopy && operation === uploadPart ? uploadPartCopy : operation;
}
