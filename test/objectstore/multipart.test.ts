import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import * as s3 from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import { codeOf, randomContent, startStore } from './start-store.ts';

const Bucket = 'videos';
const Key = 'in/a b.mp4';
const MIB = 1024 * 1024;

async function startWithUpload(limits = {}, input: Partial<s3.CreateMultipartUploadCommandInput> = {}) {
  const store = await startStore({ limits });
  const client = store.client();
  await client.send(new s3.CreateBucketCommand({ Bucket }));
  const { UploadId } = await client.send(new s3.CreateMultipartUploadCommand({ Bucket, Key, ...input }));
  const part = (PartNumber: number, Body: Buffer, rest: Partial<s3.UploadPartCommandInput> = {}) =>
    client.send(new s3.UploadPartCommand({ Bucket, Key, UploadId, PartNumber, Body, ...rest }));
  const complete = (Parts: s3.CompletedPart[], rest: Partial<s3.CompleteMultipartUploadCommandInput> = {}) =>
    client.send(new s3.CompleteMultipartUploadCommand({ Bucket, Key, UploadId, MultipartUpload: { Parts }, ...rest }));
  const content = async () => {
    const { Body } = await client.send(new s3.GetObjectCommand({ Bucket, Key }));
    return Buffer.from((await Body?.transformToByteArray()) ?? []);
  };
  const files = () =>
    readdirSync(join(store.directory, 'content'), { recursive: true }).filter((name) => name.length > 2);
  return {
    ...store,
    client,
    UploadId,
    part,
    complete,
    content,
    files,
    [Symbol.asyncDispose]: () => store[Symbol.asyncDispose](),
  };
}

test('multipart: parts in any order become one object with the ETag of S3', async () => {
  await using store = await startWithUpload({}, { ContentType: 'video/mp4', Metadata: { a: '1' } });
  const [first, second] = [randomContent(5 * MIB), randomContent(100)];
  const two = await store.part(2, second);
  const wrong = await store.part(1, Buffer.alloc(10));
  const one = await store.part(1, first);
  assert.notEqual(wrong.ETag, one.ETag);
  const { Parts = [] } = await store.client.send(
    new s3.ListPartsCommand({ Bucket, Key, UploadId: store.UploadId, MaxParts: 1 }),
  );
  assert.deepEqual(
    Parts.map(({ PartNumber, Size }) => [PartNumber, Size]),
    [[1, 5 * MIB]],
  );
  const { ETag } = await store.complete([
    { PartNumber: 1, ETag: one.ETag },
    { PartNumber: 2, ETag: two.ETag },
  ]);
  const digests = [first, second].map((each) => hash('md5', each, 'buffer'));
  assert.equal(ETag, `"${hash('md5', Buffer.concat(digests), 'hex')}-2"`);
  assert.ok(Buffer.concat([first, second]).equals(await store.content()));
  const last = await store.client.send(new s3.GetObjectCommand({ Bucket, Key, PartNumber: 2 }));
  assert.ok(second.equals(Buffer.from((await last.Body?.transformToByteArray()) ?? [])));
  assert.equal(last.PartsCount, 2);
  assert.equal(
    await codeOf(store.client.send(new s3.GetObjectCommand({ Bucket, Key, PartNumber: 3 }))),
    'InvalidRange',
  );
  const head = await store.client.send(new s3.HeadObjectCommand({ Bucket, Key }));
  assert.deepEqual([head.ContentType, head.Metadata], ['video/mp4', { a: '1' }]);
  assert.equal(await codeOf(store.complete([{ PartNumber: 1, ETag: one.ETag }])), 'NoSuchUpload');
  assert.deepEqual(store.store.describeBucket(Bucket)?.usage, { objects: 1, bytes: 5 * MIB + 100 });
});

const CHECKSUMS = [
  { ChecksumAlgorithm: 'CRC32', ChecksumType: 'COMPOSITE', field: 'ChecksumCRC32' },
  { ChecksumAlgorithm: 'CRC32', ChecksumType: 'FULL_OBJECT', field: 'ChecksumCRC32' },
  { ChecksumAlgorithm: 'CRC32C', ChecksumType: 'COMPOSITE', field: 'ChecksumCRC32C' },
  { ChecksumAlgorithm: 'CRC32C', ChecksumType: 'FULL_OBJECT', field: 'ChecksumCRC32C' },
  { ChecksumAlgorithm: 'CRC64NVME', ChecksumType: 'FULL_OBJECT', field: 'ChecksumCRC64NVME' },
  { ChecksumAlgorithm: 'SHA1', ChecksumType: 'COMPOSITE', field: 'ChecksumSHA1' },
  { ChecksumAlgorithm: 'SHA256', ChecksumType: 'COMPOSITE', field: 'ChecksumSHA256' },
] as const;
for (const { ChecksumAlgorithm, ChecksumType, field } of CHECKSUMS) {
  test(`multipart: an upload has a checksum ${ChecksumAlgorithm} of type ${ChecksumType}`, async () => {
    await using store = await startWithUpload({ partBytes: 1 }, { ChecksumAlgorithm, ChecksumType });
    const bodies = [randomContent(70_000), randomContent(3)];
    const parts = await Promise.all(
      bodies.map(async (body, i) => {
        const { ETag, [field]: sum } = await store.part(i + 1, body, { ChecksumAlgorithm });
        return { PartNumber: i + 1, ETag, [field]: sum };
      }),
    );
    const done = await store.complete(parts, { ChecksumType });
    assert.equal(done.ChecksumType, ChecksumType);
    if (ChecksumType === 'COMPOSITE') assert.match(done[field] ?? '', /-2$/);
    else {
      const whole = new s3.PutObjectCommand({ Bucket, Key: 'whole', Body: Buffer.concat(bodies), ChecksumAlgorithm });
      assert.equal(done[field], (await store.client.send(whole))[field]);
    }
    assert.ok(Buffer.concat(bodies).equals(await store.content()));
  });

  test(`complete upload: a checksum ${ChecksumAlgorithm} of type ${ChecksumType} is compared with the object`, async () => {
    await using store = await startWithUpload({ partBytes: 1 }, { ChecksumAlgorithm, ChecksumType });
    const bodies = [randomContent(70_000), randomContent(3)];
    await store.client.send(new s3.PutObjectCommand({ Bucket, Key, Body: 'old' }));
    const parts: s3.CompletedPart[] = [];
    for (const [i, body] of bodies.entries()) {
      const { ETag, [field]: sum } = await store.part(i + 1, body, { ChecksumAlgorithm });
      parts.push({ PartNumber: i + 1, ETag, [field]: sum });
    }
    // The client computes S3's checksum: of the bytes, or of the parts' checksums.
    const sums = parts.map((part) => Buffer.from(part[field] ?? '', 'base64'));
    const Body = Buffer.concat(ChecksumType === 'FULL_OBJECT' ? bodies : sums);
    const { [field]: value = '' } = await store.client.send(
      new s3.PutObjectCommand({ Bucket, Key: 'summed', Body, ChecksumAlgorithm }),
    );
    const right = ChecksumType === 'COMPOSITE' ? [value, `${value}-2`] : [value];
    const wrong = Buffer.from(value, 'base64').map((byte) => byte ^ 1);
    const refused = [
      { input: { [field]: Buffer.from(wrong).toString('base64') }, code: 'BadDigest' },
      { input: { [field]: `${value}-3` }, code: 'BadDigest' },
      { input: { [field]: 'AAA' }, code: 'InvalidRequest' },
      { input: { MpuObjectSize: 70_004 }, code: 'InvalidRequest' },
      {
        input: { ChecksumType: ChecksumType === 'COMPOSITE' ? ('FULL_OBJECT' as const) : ('COMPOSITE' as const) },
        code: 'InvalidRequest',
      },
      {
        input: ChecksumAlgorithm === 'SHA1' ? { ChecksumCRC32: 'AAAAAA==' } : { ChecksumSHA1: sha1Of('') },
        code: 'InvalidRequest',
      },
    ];
    for (const { input, code } of refused) {
      assert.equal(await codeOf(store.complete(parts, input)), code, JSON.stringify(input));
      assert.equal((await store.content()).toString(), 'old');
    }
    const [last, ...others] = right.toReversed();
    for (const each of others) {
      const again = await store.client.send(
        new s3.CreateMultipartUploadCommand({ Bucket, Key: 'again', ChecksumAlgorithm, ChecksumType }),
      );
      const at = { Bucket, Key: 'again', UploadId: again.UploadId };
      for (const [i, body] of bodies.entries()) {
        await store.client.send(new s3.UploadPartCommand({ ...at, PartNumber: i + 1, Body: body, ChecksumAlgorithm }));
      }
      const MultipartUpload = { Parts: parts };
      await store.client.send(new s3.CompleteMultipartUploadCommand({ ...at, MultipartUpload, [field]: each }));
    }
    const done = await store.complete(parts, { [field]: last, ChecksumType, MpuObjectSize: 70_003 });
    assert.equal(done[field], last);
    assert.ok(Buffer.concat(bodies).equals(await store.content()));
  });
}

const sha1Of = (text: string) => hash('sha1', text, 'base64');

test('complete upload: a checksum is rejected if the upload was created without one', async () => {
  await using store = await startWithUpload();
  const { ETag } = await store.part(1, randomContent(10));
  const parts = [{ PartNumber: 1, ETag }];
  assert.equal(await codeOf(store.complete(parts, { ChecksumCRC32: 'AAAAAA==' })), 'InvalidRequest');
  await store.complete(parts);
});

test('create upload: an unknown checksum type, or one without an algorithm, is rejected', async () => {
  await using store = await startWithUpload();
  const create = (input: object) =>
    store.client.send(new s3.CreateMultipartUploadCommand({ Bucket, Key: 'b', ...input }));
  assert.equal(await codeOf(create({ ChecksumAlgorithm: 'CRC32', ChecksumType: 'BOTH' })), 'InvalidRequest');
  assert.equal(await codeOf(create({ ChecksumType: 'FULL_OBJECT' })), 'InvalidRequest');
});

test('multipart: lib-storage uploads a stream of unknown length', async () => {
  await using store = await startStore();
  const client = store.client();
  await client.send(new s3.CreateBucketCommand({ Bucket }));
  const pieces = Array.from({ length: 12 }, () => randomContent(MIB + 17));
  await new Upload({ client, params: { Bucket, Key, Body: Readable.from(pieces) } }).done();
  const { Body } = await client.send(new s3.GetObjectCommand({ Bucket, Key }));
  assert.ok(Buffer.concat(pieces).equals(Buffer.from((await Body?.transformToByteArray()) ?? [])));
});

test('multipart: a part can be copied from an object or a range of it', async () => {
  await using store = await startWithUpload({ partBytes: 1 });
  const [small, large] = [randomContent(1000), randomContent(900_000)];
  await store.client.send(new s3.PutObjectCommand({ Bucket, Key: 'small', Body: small }));
  await store.client.send(new s3.PutObjectCommand({ Bucket, Key: 'large', Body: large }));
  const copy = (PartNumber: number, source: string, CopySourceRange?: string) =>
    store.client.send(
      new s3.UploadPartCopyCommand({
        Bucket,
        Key,
        UploadId: store.UploadId,
        PartNumber,
        CopySource: `${Bucket}/${source}`,
        CopySourceRange,
      }),
    );
  const parts = [await copy(1, 'large'), await copy(2, 'small'), await copy(3, 'large', 'bytes=300000-800000')];
  await store.complete(parts.map(({ CopyPartResult }, i) => ({ PartNumber: i + 1, ETag: CopyPartResult?.ETag })));
  const expected = Buffer.concat([large, small, large.subarray(300_000, 800_001)]);
  assert.ok(expected.equals(await store.content()));
  assert.equal(await codeOf(copy(1, 'small')), 'NoSuchUpload');
});

test('complete upload: parts that differ from those that were uploaded are rejected', async () => {
  await using store = await startWithUpload();
  const one = await store.part(1, randomContent(1000));
  const two = await store.part(2, randomContent(1000));
  const parts = [
    { PartNumber: 1, ETag: one.ETag },
    { PartNumber: 2, ETag: two.ETag },
  ];
  assert.equal(await codeOf(store.complete(parts)), 'EntityTooSmall');
  assert.equal(await codeOf(store.complete(parts.toReversed())), 'InvalidPartOrder');
  assert.equal(await codeOf(store.complete([{ PartNumber: 1, ETag: two.ETag }])), 'InvalidPart');
  assert.equal(await codeOf(store.complete([{ PartNumber: 3, ETag: one.ETag }])), 'InvalidPart');
  assert.equal(await codeOf(store.complete([])), 'MalformedXML');
  const many = Array.from({ length: 10_001 }, (_, i) => ({ PartNumber: i + 1, ETag: one.ETag }));
  assert.equal(await codeOf(store.complete(many)), 'InvalidArgument');
  assert.equal(await codeOf(store.part(10_001, Buffer.alloc(1))), 'InvalidArgument');
  assert.equal(await codeOf(store.part(0, Buffer.alloc(1))), 'InvalidArgument');
  assert.equal(await codeOf(store.client.send(new s3.GetObjectCommand({ Bucket, Key }))), 'NoSuchKey');
  await store.complete([{ PartNumber: 1, ETag: one.ETag }]);
});

test('abort upload: nothing is left', async () => {
  await using store = await startWithUpload();
  await store.part(1, randomContent(100_000));
  const uploads = () => store.client.send(new s3.ListMultipartUploadsCommand({ Bucket, Prefix: 'in/' }));
  assert.deepEqual(
    (await uploads()).Uploads?.map(({ UploadId }) => UploadId),
    [store.UploadId],
  );
  await store.client.send(new s3.AbortMultipartUploadCommand({ Bucket, Key, UploadId: store.UploadId }));
  assert.equal((await uploads()).Uploads, undefined);
  assert.equal(await codeOf(store.part(2, randomContent(10))), 'NoSuchUpload');
  await store.store.close();
  assert.deepEqual(store.files(), []);
});

test('multipart: the next start removes stale uploads', async () => {
  let now = Date.now();
  await using first = await startStore({ now: () => now, limits: { staleUpload: 1000 } });
  const client = first.client();
  await client.send(new s3.CreateBucketCommand({ Bucket }));
  await client.send(new s3.CreateMultipartUploadCommand({ Bucket, Key }));
  await first.store.close();
  now += 5000;
  await using second = await startStore({ directory: first.directory, now: () => now, limits: { staleUpload: 1000 } });
  await second.store.close();
  await using third = await startStore({ directory: first.directory });
  const { Uploads } = await third.client().send(new s3.ListMultipartUploadsCommand({ Bucket }));
  assert.equal(Uploads, undefined);
});

test('complete upload: write conditions are checked', async () => {
  await using store = await startWithUpload();
  const { ETag } = await store.part(1, randomContent(10));
  await store.client.send(new s3.PutObjectCommand({ Bucket, Key, Body: 'first' }));
  const parts = [{ PartNumber: 1, ETag }];
  assert.equal(await codeOf(store.complete(parts, { IfNoneMatch: '*' })), 'PreconditionFailed');
  assert.equal((await store.content()).toString(), 'first');
  await store.complete(parts);
});
