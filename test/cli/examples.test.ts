import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { unknownKeys } from '../../src/cli/client/fdl-file.ts';
import { readDefinition, readFdl } from '../../src/model/service/index.ts';

const EXAMPLES = fileURLToPath(new URL('../../examples', import.meta.url));

const files = globSync('*.yaml', { cwd: EXAMPLES });

test('there are examples', () => assert.ok(files.length >= 8));

for (const file of files) {
  test(`examples/${file} is a definition that a manager takes, and all of it is read`, () => {
    const path = join(EXAMPLES, file);
    const text = readFileSync(path, 'utf8');
    const services = readFdl({ name: path, text, readScript: (script) => readFileSync(script, 'utf8') });
    assert.ok(services.length > 0);
    for (const { body } of services) {
      const { definition } = readDefinition(body);
      assert.match(definition.script, /^#!\/bin\/sh\n/);
    }
    assert.deepEqual(unknownKeys(file, text), []);
  });
}
