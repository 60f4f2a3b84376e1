import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseImageReference } from './images.ts';

const digest = `sha256:${'0a'.repeat(32)}`;

const cases = [
  { image: 'busybox', name: 'busybox', version: 'latest' },
  { image: 'grycap/cowsay:v1', name: 'grycap/cowsay', version: 'v1' },
  { image: 'ghcr.io/grycap/x_y-z.a/b:1.0-rc_1', name: 'ghcr.io/grycap/x_y-z.a/b', version: '1.0-rc_1' },
  { image: 'localhost:5000/x', name: 'localhost:5000/x', version: 'latest' },
  { image: '127.0.0.1:5000/x:y', name: '127.0.0.1:5000/x', version: 'y' },
  { image: `x@${digest}`, name: 'x', version: digest },
  { image: `x:tag@${digest}`, name: 'x', version: digest },
];
for (const { image, name, version } of cases) {
  test(`image reference: ${image} is version ${version} of ${name}`, () =>
    assert.deepEqual(parseImageReference(image), { name, version }));
}

for (const image of [
  '',
  ' ',
  'X',
  'a b',
  '../x',
  'a/../b',
  'x:',
  'x@sha256:1',
  'x?y',
  'x#y',
  '/x',
  'x/',
  'x\n',
  'x:y:z',
]) {
  test(`image reference: ${JSON.stringify(image)} is invalid`, () =>
    assert.equal(parseImageReference(image), undefined));
}
