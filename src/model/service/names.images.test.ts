import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isImageAllowed } from './names.ts';

const cases: [string, string[], boolean][] = [
  ['anything', [], true],
  ['ubuntu', ['ubuntu'], true],
  ['ubuntu:24.04', ['ubuntu'], true],
  ['ubuntu@sha256:abc', ['ubuntu'], true],
  ['ubuntu:24.04@sha256:abc', ['ubuntu'], true],
  ['ubuntu-evil', ['ubuntu'], false],
  ['evil/ubuntu', ['ubuntu'], false],
  ['ghcr.io/grycap/imagemagick', ['ghcr.io/grycap'], true],
  ['ghcr.io/grycap/imagemagick:1', ['ghcr.io/grycap/'], true],
  ['ghcr.io/grycapevil/x', ['ghcr.io/grycap'], false],
  ['evil.io/ghcr.io/grycap/x', ['ghcr.io/grycap'], false],
  ['registry:5000/app:1', ['registry:5000'], true],
  ['registry:5000/app:1', ['registry:5000/app'], true],
  ['registry:5001/app:1', ['registry:5000'], false],
  ['Ubuntu', ['ubuntu'], false],
  ['ubuntu', [''], false],
  ['ubuntu', ['/'], false],
];
for (const [image, repositories, allowed] of cases) {
  test(`images: ${image} is ${allowed ? '' : 'not '}allowed by ${JSON.stringify(repositories)}`, () => {
    assert.equal(isImageAllowed(image, repositories), allowed);
  });
}
