import assert from 'node:assert/strict';
import { createHmac, hash } from 'node:crypto';
import { test } from 'node:test';
import * as s3 from '@aws-sdk/client-s3';
import { getSignedUrl } from '@aws-sdk/s3-request-presigner';
import { listOperations, type OperationSelector } from '../../src/s3-server/http/route.ts';
import { sign } from './signed-request.ts';
import { ANA, BEN, codeOf, startStore, type TestStore } from './start-store.ts';

/** Unsupported requests are rejected, not ignored, and change nothing. */

const Bucket = 'photos';
const Key = 'in/a';
const OBJECT = `/${Bucket}/${Key}`;

async function startWithObject() {
  const store = await startStore({ limits: { partBytes: 1 } });
  const client = store.client();
  await client.send(new s3.CreateBucketCommand({ Bucket }));
  await client.send(new s3.PutObjectCommand({ Bucket, Key, Body: 'old', Tagging: 'a=1' }));
  return { ...store, s3: client, [Symbol.asyncDispose]: () => store[Symbol.asyncDispose]() };
}

interface Sent {
  readonly method: string;
  readonly path: string;
  readonly headers?: Record<string, string>;
  readonly body?: string;
}

/** Sends a request that the test signs itself. */
async function send(store: TestStore, { method, path, headers = {}, body = '' }: Sent) {
  const { host } = new URL(store.endpoint);
  const signed = sign({ method, path, host, keys: ANA, payload: hash('sha256', body, 'hex'), headers });
  const { host: _, ...rest } = signed.headers;
  const hasBody = method === 'PUT' || method === 'POST';
  const answer = await fetch(`${store.endpoint}${path}`, { method, headers: rest, ...(hasBody && { body }) });
  return { status: answer.status, text: await answer.text() };
}

/** Everything that a client can see of the store. */
async function stateOf({ store }: TestStore) {
  const buckets = store.listBuckets({ limit: 100 });
  const state: unknown[] = [buckets];
  for (const { name } of buckets) {
    for (const object of store.listObjects(name, { limit: 1000 }).objects) {
      const content = await store.readObject({ bucket: name, key: object.key }).stream.toArray();
      state.push([name, object, Buffer.concat(content).toString()]);
    }
  }
  return state;
}

async function assertRefused(store: TestStore, request: Sent): Promise<void> {
  const before = await stateOf(store);
  const { status, text } = await send(store, request);
  assert.equal(status, 501, `${JSON.stringify(request)}: ${text}`);
  if (request.method !== 'HEAD') assert.match(text, /<Error><Code>NotImplemented<\/Code><Message>.*not supported/);
  assert.deepEqual(await stateOf(store), before);
}

/** Query parameters of S3 for objects, current and former, and an invented one. */
const OF_OBJECTS = [
  'append',
  'annotation',
  'encryption',
  'legal-hold',
  'object-lock',
  'partNumber=1',
  'policy',
  'renameObject',
  'restore',
  'retention',
  'select',
  'somethingNew',
  'torrent',
  'uploads=1&uploadId=x',
  'website',
];
for (const method of ['GET', 'HEAD', 'PUT', 'POST', 'DELETE']) {
  test(`unsupported: ${method} of an object with an unknown query parameter is rejected`, async () => {
    await using store = await startWithObject();
    const understood: Record<string, string[]> = { GET: ['partNumber=1'], HEAD: ['partNumber=1'] };
    for (const query of OF_OBJECTS.filter((each) => !understood[method]?.includes(each))) {
      await assertRefused(store, { method, path: `${OBJECT}?${query}`, body: method === 'PUT' ? 'new' : '' });
    }
    assert.deepEqual(store.reported, [], 'not a failure of this server');
  });
}

const OF_BUCKETS = [
  'abac',
  'accelerate',
  'analytics',
  'intelligent-tiering',
  'inventory',
  'logging',
  'metadataConfiguration',
  'metadataTable',
  'metrics',
  'ownershipControls',
  'policyStatus',
  'publicAccessBlock',
  'replication',
  'requestPayment',
  'session',
  'somethingNew',
  'website',
];
for (const method of ['GET', 'HEAD', 'PUT', 'POST', 'DELETE']) {
  test(`unsupported: ${method} of a bucket with an unknown query parameter is rejected`, async () => {
    await using store = await startWithObject();
    await store.store.createBucket({ name: 'empty', owner: ANA.accessKey });
    for (const query of OF_BUCKETS) await assertRefused(store, { method, path: `/empty?${query}` });
    for (const query of method === 'GET' ? [] : ['versioning', 'acl', 'encryption', 'lifecycle', 'object-lock']) {
      await assertRefused(store, { method, path: `/empty?${query}` });
    }
    assert.equal((await send(store, { method: 'GET', path: '/?continuation-token=x' })).status, 501);
  });
}

test('unsupported: RenameObject of the aws-sdk is rejected, and both keys stay unchanged', async () => {
  await using store = await startWithObject();
  const before = await stateOf(store);
  const rename = new s3.RenameObjectCommand({ Bucket, Key: 'in/b', RenameSource: OBJECT });
  assert.equal(await codeOf(store.s3.send(rename)), 'NotImplemented');
  assert.deepEqual(await stateOf(store), before);
});

const LOCKS = {
  'x-amz-object-lock-mode': 'GOVERNANCE',
  'x-amz-object-lock-retain-until-date': '2099-01-01T00:00:00Z',
  'x-amz-object-lock-legal-hold': 'ON',
};
const KEY = Buffer.alloc(32, 1);
const CUSTOMERS_KEY = {
  'x-amz-server-side-encryption-customer-algorithm': 'AES256',
  'x-amz-server-side-encryption-customer-key': KEY.toString('base64'),
  'x-amz-server-side-encryption-customer-key-md5': hash('md5', KEY, 'base64'),
};
const OF_WRITES: Record<string, string> = {
  ...LOCKS,
  ...CUSTOMERS_KEY,
  'x-amz-server-side-encryption': 'aws:kms',
  'x-amz-server-side-encryption-aws-kms-key-id': 'one',
  'x-amz-server-side-encryption-bucket-key-enabled': 'true',
  'x-amz-website-redirect-location': '/elsewhere',
  'x-amz-acl': 'public-read',
  'x-amz-grant-read': 'uri="http://acs.amazonaws.com/groups/global/AllUsers"',
  'x-amz-storage-class': 'GLACIER',
  'x-amz-write-offset-bytes': '3',
  'x-amz-checksum-sha512': 'AAAA',
  'x-amz-something-new': '1',
  'x-minio-extract': 'true',
};
const BY_HEADER: readonly { readonly request: Sent; readonly headers: Record<string, string> }[] = [
  { request: { method: 'PUT', path: OBJECT, body: 'new' }, headers: OF_WRITES },
  { request: { method: 'POST', path: `${OBJECT}?uploads` }, headers: OF_WRITES },
  {
    request: { method: 'PUT', path: `/${Bucket}/copy`, headers: { 'x-amz-copy-source': OBJECT } },
    headers: {
      ...OF_WRITES,
      'x-amz-copy-source-server-side-encryption-customer-algorithm': 'AES256',
      'x-amz-checksum-algorithm': 'SHA256',
    },
  },
  { request: { method: 'GET', path: OBJECT }, headers: { ...CUSTOMERS_KEY, 'x-minio-extract': 'true' } },
  { request: { method: 'HEAD', path: OBJECT }, headers: CUSTOMERS_KEY },
  {
    request: { method: 'DELETE', path: OBJECT },
    headers: {
      'x-amz-mfa': 'serial 123456',
      'x-amz-if-match-size': '3',
      'x-amz-if-match-last-modified-time': 'Wed, 01 Jan 2020 00:00:00 GMT',
      'x-minio-force-delete': 'true',
    },
  },
  {
    request: { method: 'PUT', path: '/another' },
    headers: {
      'x-amz-bucket-object-lock-enabled': 'true',
      'x-amz-acl': 'public-read',
      'x-amz-grant-write': 'id=ben',
      'x-amz-object-ownership': 'ObjectWriter',
    },
  },
];
for (const { request, headers } of BY_HEADER) {
  test(`unsupported: ${request.method} ${request.path} with an unknown header is rejected`, async () => {
    await using store = await startWithObject();
    for (const [name, value] of Object.entries(headers)) {
      await assertRefused(store, { ...request, headers: { ...request.headers, [name]: value } });
    }
    const { Uploads } = await store.s3.send(new s3.ListMultipartUploadsCommand({ Bucket }));
    assert.equal(Uploads, undefined);
  });
}

test('unsupported: a part with an encryption key or an offset is rejected', async () => {
  await using store = await startWithObject();
  const { UploadId } = await store.s3.send(new s3.CreateMultipartUploadCommand({ Bucket, Key }));
  for (const [name, value] of Object.entries({ ...CUSTOMERS_KEY, 'x-amz-write-offset-bytes': '3' })) {
    const path = `${OBJECT}?partNumber=1&uploadId=${UploadId}`;
    await assertRefused(store, { method: 'PUT', path, body: 'new', headers: { [name]: value } });
  }
  const { Parts } = await store.s3.send(new s3.ListPartsCommand({ Bucket, Key, UploadId }));
  assert.equal(Parts, undefined);
});

test('unsupported: presigned URLs with such a header in the query are rejected', async () => {
  await using store = await startWithObject();
  const before = await stateOf(store);
  const inputs = [
    { ObjectLockLegalHoldStatus: 'ON' as const },
    { WebsiteRedirectLocation: '/elsewhere' },
    { WriteOffsetBytes: 3 },
    { ACL: 'public-read' as const },
    { StorageClass: 'GLACIER' as const },
  ];
  for (const input of inputs) {
    const url = await getSignedUrl(store.s3, new s3.PutObjectCommand({ Bucket, Key, ...input }));
    const answer = await fetch(url, { method: 'PUT', body: 'new' });
    assert.equal(answer.status, 501, JSON.stringify(input));
  }
  assert.deepEqual(await stateOf(store), before);
});

test('unsupported: a PUT of a range of an object is rejected', async () => {
  await using store = await startWithObject();
  const request = { method: 'PUT', path: OBJECT, body: 'new', headers: { 'content-range': 'bytes 3-5/6' } };
  await assertRefused(store, request);
});

test('unsupported: headers without an effect on this server are accepted', async () => {
  await using store = await startWithObject();
  const requests: Sent[] = [
    { method: 'PUT', path: `${OBJECT}?x-id=PutObject&x-from=a`, body: 'x' },
    ...['private', 'bucket-owner-full-control', 'bucket-owner-read'].map((acl) => ({
      method: 'PUT',
      path: OBJECT,
      headers: { 'x-amz-acl': acl },
    })),
    { method: 'PUT', path: OBJECT, headers: { 'x-amz-storage-class': 'STANDARD', 'x-amz-request-payer': 'requester' } },
    { method: 'PUT', path: OBJECT, headers: { 'x-amz-sdk-checksum-algorithm': 'CRC32', 'x-amz-api-version': '1' } },
    {
      method: 'PUT',
      path: '/second',
      headers: {
        'x-amz-acl': 'private',
        'x-amz-bucket-object-lock-enabled': 'False',
        'x-amz-object-ownership': 'BucketOwnerEnforced',
      },
      body: '<CreateBucketConfiguration><LocationConstraint>eu</LocationConstraint></CreateBucketConfiguration>',
    },
    { method: 'GET', path: `${OBJECT}?versionId=null`, headers: { 'x-amz-checksum-mode': 'ENABLED' } },
    { method: 'GET', path: `/${Bucket}?list-type=2&metadata=true&delimiter=&prefix=` },
    { method: 'DELETE', path: OBJECT, headers: { 'x-amz-bypass-governance-retention': 'true' } },
    { method: 'DELETE', path: '/second', headers: { 'x-minio-force-delete': 'true' } },
  ];
  for (const request of requests) {
    const { status, text } = await send(store, request);
    assert.ok(status < 300, `${JSON.stringify(request)}: ${status} ${text}`);
  }
});

test('unsupported: documents with unsupported elements are rejected', async () => {
  await using store = await startWithObject();
  const path = `/${Bucket}?delete`;
  for (const condition of ['<ETag>other</ETag>', '<Size>7</Size>', '<VersionId>abc</VersionId>']) {
    const before = await stateOf(store);
    const body = `<Delete><Object><Key>${Key}</Key>${condition}</Object></Delete>`;
    const { status, text } = await send(store, { method: 'POST', path, body });
    assert.match(`${status} ${text}`, condition.includes('Version') ? /^404.*NoSuchVersion/s : /^501.*NotImplemented/s);
    assert.deepEqual(await stateOf(store), before);
  }
  const tags = '<Tags><Tag><Key>a</Key><Value>1</Value></Tag></Tags>';
  const body = `<CreateBucketConfiguration>${tags}</CreateBucketConfiguration>`;
  const { status, text } = await send(store, { method: 'PUT', path: '/another', body });
  assert.match(`${status} ${text}`, /^501.*NotImplemented/s);
  assert.equal(store.store.describeBucket('another'), undefined);
  const directive = { 'x-amz-copy-source': OBJECT, 'x-amz-metadata-directive': 'MERGE' };
  const copy = await send(store, { method: 'PUT', path: `/${Bucket}/copy`, headers: directive });
  assert.match(`${copy.status} ${copy.text}`, /^400.*InvalidArgument/s);
});

test('expected owner: a request for a bucket of another owner is rejected', async () => {
  await using store = await startWithObject();
  const before = await stateOf(store);
  const put = (ExpectedBucketOwner: string) =>
    store.s3.send(new s3.PutObjectCommand({ Bucket, Key, Body: 'new', ExpectedBucketOwner }));
  const copy = (ExpectedSourceBucketOwner: string, ExpectedBucketOwner = ANA.accessKey) =>
    store.s3.send(
      new s3.CopyObjectCommand({
        Bucket,
        Key: 'copy',
        CopySource: `${Bucket}/${Key}`,
        ExpectedBucketOwner,
        ExpectedSourceBucketOwner,
      }),
    );
  assert.equal(await codeOf(put(BEN.accessKey)), 'AccessDenied');
  assert.equal(await codeOf(copy(BEN.accessKey)), 'AccessDenied');
  assert.equal(await codeOf(copy(ANA.accessKey, BEN.accessKey)), 'AccessDenied');
  assert.deepEqual(await stateOf(store), before);
  await put(ANA.accessKey);
  await copy(ANA.accessKey);
});

test('list buckets: prefix and region select the buckets', async () => {
  await using store = await startWithObject();
  await store.store.createBucket({ name: 'videos', owner: ANA.accessKey });
  const list = async (input: s3.ListBucketsCommandInput) =>
    (await store.s3.send(new s3.ListBucketsCommand(input))).Buckets?.map(({ Name }) => Name) ?? [];
  assert.deepEqual(await list({ Prefix: 'ph', MaxBuckets: 1 }), [Bucket]);
  assert.deepEqual(await list({ BucketRegion: 'us-east-1' }), [Bucket, 'videos']);
  assert.deepEqual(await list({ BucketRegion: 'eu-west-1' }), []);
});

test('list uploads: grouped by a delimiter, encoded, and page by page', async () => {
  await using store = await startWithObject();
  const keys = ['a b', 'in/1', 'in/2', 'out/1', 'z', 'z'];
  for (const key of keys) await store.s3.send(new s3.CreateMultipartUploadCommand({ Bucket, Key: key }));
  const list = (input: Partial<s3.ListMultipartUploadsCommandInput>) =>
    store.s3.send(new s3.ListMultipartUploadsCommand({ Bucket, ...input }));
  const grouped = await list({ Delimiter: '/', EncodingType: 'url' });
  assert.deepEqual(
    grouped.Uploads?.map((upload) => upload.Key),
    ['a%20b', 'z', 'z'],
  );
  assert.deepEqual(
    grouped.CommonPrefixes?.map(({ Prefix }) => Prefix),
    ['in/', 'out/'],
  );
  const names: (string | undefined)[] = [];
  let page: s3.ListMultipartUploadsCommandOutput | undefined;
  do {
    page = await list({
      Delimiter: '/',
      MaxUploads: 1,
      KeyMarker: page?.NextKeyMarker,
      UploadIdMarker: page?.NextUploadIdMarker,
    });
    names.push(
      ...(page.Uploads ?? []).map((upload) => upload.Key),
      ...(page.CommonPrefixes ?? []).map((p) => p.Prefix),
    );
  } while (page.IsTruncated);
  assert.deepEqual(names, ['a b', 'in/', 'out/', 'z', 'z']);
  assert.equal((await list({ Prefix: 'z', KeyMarker: 'a b', UploadIdMarker: 'x' })).Uploads?.length, 2);
});

/** As boto3 presigns by default: x-amz headers are in the query and signed as headers. */
function presignV2(endpoint: string, path: string, settings: Record<string, string>): string {
  const expires = String(Math.floor(Date.now() / 1000) + 60);
  const headers = Object.entries(settings).map(([name, value]) => `${name}:${value}\n`);
  const text = `PUT\n\n\n${expires}\n${headers.join('')}${path}`;
  const Signature = createHmac('sha1', ANA.secret.reveal()).update(text).digest('base64');
  const query = new URLSearchParams({ AWSAccessKeyId: ANA.accessKey, Signature, Expires: expires, ...settings });
  return `${endpoint}${path}?${query.toString()}`;
}

test('presigned URLs: version 2 signs the headers in the query, so none can be added', async () => {
  await using store = await startWithObject();
  const before = await stateOf(store);
  const plain = presignV2(store.endpoint, OBJECT, {});
  for (const added of [`x-amz-copy-source=${Bucket}/${Key}`, 'X-Amz-Tagging=b%3D2', 'x-amz-meta-a=1']) {
    const answer = await fetch(`${plain}&${added}`, { method: 'PUT', body: Buffer.from('new') });
    assert.match(`${answer.status} ${await answer.text()}`, /^403.*SignatureDoesNotMatch/s);
  }
  assert.deepEqual(await stateOf(store), before);
  const described = presignV2(store.endpoint, OBJECT, { 'x-amz-meta-a': '1' });
  assert.equal((await fetch(described, { method: 'PUT', body: Buffer.from('new') })).status, 200);
  assert.equal(store.store.statObject({ bucket: Bucket, key: Key })?.headers['x-amz-meta-a'], '1');
});

test('presigned URLs: the names of headers in the query may be in upper case', async () => {
  await using store = await startWithObject();
  const { host } = new URL(store.endpoint);
  const settings = ['X-Amz-Tagging=b%3D2', 'X-Amz-Meta-A=1'];
  const { headers } = sign({ method: 'PUT', path: `${OBJECT}?${settings.join('&')}`, host, keys: ANA });
  const { host: _, ...rest } = headers;
  assert.equal(
    (await fetch(`${store.endpoint}${OBJECT}?${settings.join('&')}`, { method: 'PUT', headers: rest })).status,
    200,
  );
  const object = store.store.statObject({ bucket: Bucket, key: Key });
  assert.deepEqual([object?.tags, object?.headers['x-amz-meta-a']], [{ b: '2' }, '1']);
});

/** Values of the parameters that select an operation. */
const SELECTING: Readonly<Record<string, string>> = { 'list-type': '2', uploadId: 'none&partNumber=1' };

/** A request of this operation, with which the generated tests below change nothing: each of them must be rejected. */
function requestFor({ level, method, query, copying }: OperationSelector): Sent & { headers: Record<string, string> } {
  const path = { service: '/', bucket: `/${Bucket}`, object: OBJECT }[level];
  const value = SELECTING[query];
  // Only an upload of a part has a part number.
  const select = query === 'uploadId' && method !== 'PUT' ? 'uploadId=none' : `${query}${value ? `=${value}` : ''}`;
  const headers: Record<string, string> = copying ? { 'x-amz-copy-source': `${Bucket}/${Key}` } : {};
  const body = query === 'delete' ? `<Delete><Object><Key>${Key}</Key></Object></Delete>` : '';
  return { method, path: `${path}${query === '' ? '' : `?${select}`}`, headers, body };
}

const nameOf = ({ level, method, query, copying }: OperationSelector) =>
  `${method} ${level}${query && `?${query}`}${copying ? ' (copy)' : ''}`;

/** There is no bucket yet whose owner could be expected, or the request is for all buckets. */
const WITHOUT_OWNER = new Set(['PUT bucket', 'GET service']);

test('every operation: an unknown sub-resource or header is rejected, and so is a bucket of another owner than expected', async () => {
  await using store = await startWithObject();
  const operations = listOperations();
  assert.ok(operations.length > 40, String(operations.length));
  for (const operation of operations) {
    const request = requestFor(operation);
    const { path, headers } = request;
    const mark = path.includes('?') ? '&' : '?';
    await assertRefused(store, { ...request, path: `${path}${mark}somethingNew=1` });
    await assertRefused(store, { ...request, path: `${path}${mark}somethingElse` });
    for (const unknown of ['x-amz-something-new', 'x-amz-server-side-encryption', 'x-amz-write-offset-bytes']) {
      await assertRefused(store, { ...request, headers: { ...headers, [unknown]: '1' } });
    }
    if (WITHOUT_OWNER.has(nameOf(operation))) continue;
    const before = await stateOf(store);
    const expecting = { ...headers, 'x-amz-expected-bucket-owner': BEN.accessKey };
    const { status, text } = await send(store, { ...request, headers: expecting });
    // A request that deletes several objects is answered for each of them.
    assert.equal(status, operation.query === 'delete' ? 200 : 403, `${nameOf(operation)}: ${text}`);
    if (operation.method !== 'HEAD') assert.match(text, /<Code>AccessDenied<\/Code>/, nameOf(operation));
    assert.deepEqual(await stateOf(store), before, nameOf(operation));
  }
});
