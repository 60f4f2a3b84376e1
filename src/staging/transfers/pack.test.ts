import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { inflateRawSync } from 'node:zlib';
import * as fc from 'fast-check';
import { scratch } from './embedded-store.fixture.ts';
import { pack } from './pack.ts';

function directories(t: Pick<TestContext, 'after'>) {
  const root = scratch(t);
  mkdirSync(join(root, 'outputs'));
  return { outputs: join(root, 'outputs'), to: join(root, 'answer') };
}

const decoded = (path: string) => Buffer.from(readFileSync(path, 'latin1'), 'base64');

test('answer: without files there is none', async (t) => {
  const { outputs, to } = directories(t);
  mkdirSync(join(outputs, 'empty'));
  symlinkSync('/etc/hostname', join(outputs, 'link'));
  assert.equal(await pack(outputs, to), false);
  assert.equal(existsSync(to), false);
});

test('answer: one file of any length is its base64', async (t) => {
  const { outputs, to } = directories(t);
  await fc.assert(
    fc.asyncProperty(fc.uint8Array({ maxLength: 70_000, size: 'max' }), async (bytes) => {
      writeFileSync(join(outputs, 'a'), bytes);
      assert.equal(await pack(outputs, to), true);
      assert.equal(readFileSync(to, 'latin1'), Buffer.from(bytes).toString('base64'));
    }),
  );
});

test('answer: several files are the base64 of a zip archive with relative names', async (t) => {
  const { outputs, to } = directories(t);
  const large = randomBytes(3_000_000);
  mkdirSync(join(outputs, 'sub/deep'), { recursive: true });
  writeFileSync(join(outputs, 'sub/deep/large'), large);
  writeFileSync(join(outputs, 'ä.txt'), 'hello');
  writeFileSync(join(outputs, 'empty'), '');
  writeFileSync(join(outputs, 'C:\\odd'), 'odd');
  assert.equal(await pack(outputs, to), true);

  const entries = unzip(decoded(to));
  assert.deepEqual([...entries.keys()], ['C__odd', 'empty', 'sub/deep/large', 'ä.txt']);
  assert.ok(entries.get('sub/deep/large')?.equals(large));
  assert.equal(entries.get('ä.txt')?.toString(), 'hello');
});

/** Reads an archive through its central directory (APPNOTE 4.3). */
function unzip(archive: Buffer): Map<string, Buffer> {
  const end = archive.lastIndexOf(Buffer.from('PK\x05\x06', 'latin1'));
  const entries = new Map<string, Buffer>();
  let at = archive.readUInt32LE(end + 16);
  for (let left = archive.readUInt16LE(end + 10); left > 0; left--) {
    const [size, local] = [archive.readUInt32LE(at + 20), archive.readUInt32LE(at + 42)];
    const [name, extra, comment] = [28, 30, 32].map((offset) => archive.readUInt16LE(at + offset)) as [
      number,
      number,
      number,
    ];
    const begin = local + 30 + archive.readUInt16LE(local + 26) + archive.readUInt16LE(local + 28);
    const content = archive.subarray(begin, begin + size);
    const deflated = archive.readUInt16LE(at + 10) === 8;
    entries.set(archive.toString('utf8', at + 46, at + 46 + name), deflated ? inflateRawSync(content) : content);
    at += 46 + name + extra + comment;
  }
  return entries;
}

test('answer: a failed write is reported, and nothing is left behind', async (t) => {
  const { outputs, to } = directories(t);
  writeFileSync(join(outputs, 'a'), 'x');
  mkdirSync(to);
  await assert.rejects(pack(outputs, to), {
    code: 'output-failed',
    message: /^the answer could not be created: /,
  });
  assert.deepEqual(readdirSync(join(to, '..')).toSorted(), ['answer', 'outputs']);
});
