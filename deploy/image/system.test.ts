import assert from 'node:assert/strict';
import { test } from 'node:test';
import { glibcProblem } from './system.ts';

for (const version of ['2.34', '2.36', '2.41', '2.100', '3.0']) {
  test(`the image can be made with glibc ${version}`, () => assert.equal(glibcProblem(version), undefined));
}

for (const version of ['2.4', '2.28', '2.33', '1.99']) {
  test(`with glibc ${version}, which loads what asks for names, it says what to do instead`, () => {
    assert.match(glibcProblem(version) ?? '', new RegExp(`no names with glibc ${version}: .*use deploy/Dockerfile$`));
  });
}
