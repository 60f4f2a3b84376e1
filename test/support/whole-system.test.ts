import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { testFilePath, WITH_KUBERNETES, WITH_MINIO, WITH_PODS, WITH_PODS_LONG } from './whole-system.ts';

const all = [WITH_KUBERNETES, WITH_MINIO, ...Object.values(WITH_PODS), ...Object.values(WITH_PODS_LONG)].flat();

for (const { file, only, except = {} } of all) {
  test(`whole-system tests: ${file} exists and has the named tests`, () => {
    const path = testFilePath(file);
    assert.ok(existsSync(path), path);
    const text = readFileSync(path, 'utf8');
    for (const name of [...(only === undefined ? [] : [only]), ...Object.keys(except)]) {
      assert.ok(text.includes(name), `${file} has no test "${name}"`);
    }
  });
}
