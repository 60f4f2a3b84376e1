import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { makeTemporaryDirectory, removeTemporaryDirectory } from '../../cluster/local/temporary-directory.ts';
import { TEST_CERTIFICATE, TEST_KEY } from '../../outbound/certificate.fixture.ts';
import { ownAuthorities } from './authorities.ts';

test('pods are given the operator’s own authorities, and nothing else of their file', (t) => {
  const directory = makeTemporaryDirectory();
  t.after(() => removeTemporaryDirectory(directory));
  const file = (text: string) => {
    const path = join(directory, 'ca.pem');
    writeFileSync(path, text);
    return { NODE_EXTRA_CA_CERTS: path };
  };
  assert.deepEqual(ownAuthorities(file(`${TEST_KEY}\n${TEST_CERTIFICATE}`)), { authorities: TEST_CERTIFICATE.trim() });
  assert.deepEqual(ownAuthorities(file('nobody')), {});
  assert.deepEqual(ownAuthorities({}), {});
  assert.deepEqual(ownAuthorities({ NODE_EXTRA_CA_CERTS: join(directory, 'not-there') }), {});
  const broken = TEST_CERTIFICATE.replace(/MII./, 'AAAA');
  assert.throws(() => ownAuthorities(file(`${TEST_CERTIFICATE}\n${broken}`)), {
    code: 'invalid-config',
    message: /certificate 2 in .*ca\.pem cannot be read/,
  });
  assert.throws(() => ownAuthorities(file(TEST_CERTIFICATE.repeat(100))), {
    code: 'invalid-config',
    message: /ca\.pem has more than 32 KiB of certificates.*leave only those of your own authorities in it/s,
  });
});
