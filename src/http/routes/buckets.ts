import type { FastifyInstance, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import {
  bucketView,
  changeBucket,
  createBucket,
  findBucket,
  listBuckets,
  listObjects,
  PRESIGNED_OPERATIONS,
  presignObject,
  removeBucket,
} from '../../buckets/index.ts';
import type { Authenticator, User } from '../../identity/index.ts';
import type { ObjectStore } from '../../ports/index.ts';
import { errors, noBody } from '../answers.ts';
import { systemPrincipal } from '../authentication.ts';
import { beforeBody, readJsonBody } from '../body.ts';
import { HttpError } from '../errors.ts';
import { CursorParam } from '../params.ts';

export interface BucketsDeps {
  readonly authenticator: Authenticator;
  readonly objects: ObjectStore;
  /** Shown as the owner of the administrator's buckets. */
  readonly managerName: string;
  /** Objects in a page: `JOB_LISTING_LIMIT`. */
  readonly pageSize: number;
  readonly now: () => number;
  /** Gives the user keys for the store, unless the user has some. */
  readonly keysOf: (principal: User) => Promise<unknown>;
}

const tags = ['buckets'];

/** What `bucketProblem` forbids: an IPv4 address, and a dot beside another dot or a hyphen. */
const NO_ADDRESS =
  '(?![0-9]{1,3}[.][0-9]{1,3}[.][0-9]{1,3}[.][0-9]{1,3}$)(?![0-9]{1,3}[.][0-9]{1,3}[.][0-9]{1,3}[.][0-9]{1,3}/)';
const NO_DOTS = '(?![^/]*[.][.])(?![^/]*[.]-)(?![^/]*-[.])';

/** A part of a path: neither `.` nor `..`. */
const FOLDER = '(?![.]{1,2}/)(?![.]{1,2}$)[^/]+';

const BodySchema = Type.Object(
  {
    bucket_name: Type.String({
      description: '`bucket`, or `bucket/folder`',
      pattern: `^(?!oscar-staging)(?!oscar-events)${NO_ADDRESS}${NO_DOTS}[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/${FOLDER})*$`,
    }),
    visibility: Type.Optional(Type.Enum(['private', 'restricted', 'public'])),
    allowed_users: Type.Optional(Type.Array(Type.String(), { description: 'uids, with `restricted`' })),
  },
  {
    title: 'BucketDefinition',
    examples: [
      { bucket_name: 'photos', visibility: 'restricted', allowed_users: ['62bb11b40398f73778b66f344d282242'] },
    ],
  },
);

const BUCKET = {
  bucket_name: Type.String(),
  visibility: Type.String(),
  allowed_users: Type.Union([Type.Array(Type.String()), Type.Null()]),
  owner: Type.String(),
  metadata: Type.Record(Type.String(), Type.String()),
  objects: Type.Optional(
    Type.Array(Type.Object({ object_name: Type.String(), size_bytes: Type.Integer(), last_modified: Type.String() })),
  ),
  storage_quota: Type.Object({
    max: Type.Optional(Type.String()),
    max_bytes: Type.Optional(Type.Integer()),
    source: Type.String(),
  }),
  storage_usage: Type.Object({
    used: Type.String(),
    used_bytes: Type.Integer(),
    objects: Type.Optional(Type.Integer()),
  }),
  attribution: Type.String(),
};
const BucketSchema = Type.Object(BUCKET, { title: 'Bucket' });

const BucketPageSchema = Type.Object(
  {
    ...BUCKET,
    next_page: Type.Optional(Type.String()),
    is_truncated: Type.Boolean(),
    returned_items: Type.Integer(),
  },
  { title: 'BucketPage' },
);

const BucketName = Type.Object({
  name: Type.String({ description: 'the bucket', maxLength: 63, pattern: '^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$' }),
});

const PRESIGN = {
  object_key: Type.String({ minLength: 1, maxLength: 512, pattern: '[^/]' }),
  expires_in: Type.Optional(
    Type.Integer({ description: 'seconds, up to a week; 900 if left out', minimum: 0, maximum: 604_800 }),
  ),
};
const UploadId = Type.String({ description: 'of the multipart upload, as the store named it', minLength: 1 });
const PresignSchema = Type.Union(
  [
    Type.Object({
      ...PRESIGN,
      operation: Type.Enum(['upload', 'download', 'delete-object', 'multipart-create']),
      content_type: Type.Optional(Type.String({ pattern: '^[A-Za-z0-9.+-]+/[ -~]+$' })),
      extra_headers: Type.Optional(
        Type.Record(Type.String({ pattern: "^[A-Za-z0-9_!#$%&'*+.^`|~-]+$" }), Type.String({ pattern: '^[ -~]*$' }), {
          description: 'headers that the upload must have',
        }),
      ),
    }),
    Type.Object({
      ...PRESIGN,
      operation: Type.Enum(['multipart-part']),
      upload_id: UploadId,
      part_number: Type.Integer({ minimum: 1, maximum: 10_000 }),
    }),
    Type.Object({
      ...PRESIGN,
      operation: Type.Enum(['multipart-list', 'multipart-complete', 'multipart-abort']),
      upload_id: UploadId,
      part_number: Type.Optional(
        Type.Integer({
          description: 'with `multipart-list`: the part after which the list begins',
          minimum: 0,
          maximum: 10_000,
        }),
      ),
    }),
  ],
  { title: 'PresignRequest', examples: [{ object_key: 'in/a.jpg', operation: 'upload', expires_in: 900 }] },
);

const PresignedSchema = Type.Object(
  {
    object_key: Type.String(),
    operation: Type.Enum([...PRESIGNED_OPERATIONS]),
    method: Type.Enum(['PUT', 'GET', 'POST', 'DELETE']),
    url: Type.String({ format: 'uri' }),
    expires_at: Type.String({ format: 'date-time' }),
    headers: Type.Optional(
      Type.Record(Type.String(), Type.String(), { description: 'headers that the request to `url` must have' }),
    ),
  },
  { title: 'PresignedUrl' },
);

export function bucketsRoutes(app: FastifyInstance, deps: BucketsDeps): void {
  const { authenticator, objects, managerName } = deps;
  const who = (request: FastifyRequest) => systemPrincipal(request, authenticator);
  const bucketParam = (request: FastifyRequest) => (request.params as { name: string }).name;

  const create = {
    operationId: 'createBucket',
    summary: 'Create a bucket',
    tags,
    body: BodySchema,
    response: { 201: noBody('Created'), ...errors(403, 409) },
  };
  app.post('/system/buckets', { schema: create, ...beforeBody(who) }, async (request, reply) => {
    const principal = await who(request);
    await createBucket(principal, readJsonBody(request), objects, managerName);
    return reply.code(201).send();
  });

  const list = {
    operationId: 'listBuckets',
    summary: 'Buckets that the caller reaches',
    tags,
    response: { 200: Type.Array(BucketSchema) },
  };
  app.get('/system/buckets', { schema: list }, async (request) => {
    const principal = await who(request);
    const found = await listBuckets(principal, objects);
    return found.map((bucket) => bucketView(bucket, managerName, { withOwner: false }));
  });

  const change = {
    operationId: 'updateBucket',
    summary: 'Change visibility and allowed users',
    tags,
    body: BodySchema,
    response: { 204: noBody('Changed'), ...errors(403, 404, 409) },
  };
  app.put('/system/buckets', { schema: change, ...beforeBody(who) }, async (request, reply) => {
    const principal = await who(request);
    await changeBucket(principal, readJsonBody(request), objects);
    return reply.code(204).send();
  });

  const read = {
    operationId: 'getBucket',
    summary: 'One bucket and a page of its objects',
    tags,
    params: BucketName,
    querystring: Type.Object({
      page: CursorParam('`next_page` of the page before'),
      prefix: Type.Optional(Type.String({ description: 'only objects whose name begins with it' })),
    }),
    response: { 200: BucketPageSchema, ...errors(403, 404) },
  };
  app.get('/system/buckets/:name', { schema: read }, async (request) => {
    const principal = await who(request);
    const bucket = await findBucket(principal, 'use', bucketParam(request), objects);
    const { page: from, prefix } = request.query as { page?: string; prefix?: string | string[] };
    if (Array.isArray(prefix)) throw new HttpError('bad-request', 'prefix: must be given once');
    const asked = { ...(from !== undefined && { page: from }), ...(prefix !== undefined && { prefix }) };
    const page = await listObjects(bucket, { ...asked, limit: deps.pageSize }, objects);
    return {
      ...bucketView(bucket, managerName, { withOwner: true, objects: page.items }),
      ...(page.next !== undefined && { next_page: page.next }),
      is_truncated: page.next !== undefined,
      returned_items: page.items.length,
    };
  });

  const remove = {
    operationId: 'deleteBucket',
    summary: 'Delete a bucket and all that is in it',
    tags,
    params: BucketName,
    response: { 204: noBody('Deleted'), ...errors(403, 404, 409) },
  };
  app.delete('/system/buckets/:name', { schema: remove, ...beforeBody(who) }, async (request, reply) => {
    const principal = await who(request);
    await removeBucket(principal, bucketParam(request), objects);
    return reply.code(204).send();
  });

  const presign = {
    operationId: 'presignObject',
    summary: 'A URL that uploads, downloads or deletes one object, or does one step of a multipart upload of it',
    tags,
    params: BucketName,
    body: PresignSchema,
    response: { 200: PresignedSchema, ...errors(403, 404) },
  };
  app.post('/system/buckets/:name/presign', { schema: presign, ...beforeBody(who) }, async (request) => {
    const principal = await who(request);
    return presignObject(principal, bucketParam(request), readJsonBody(request), deps);
  });
}
