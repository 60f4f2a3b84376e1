import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { rootCertificates } from 'node:tls';
import { makeTemporaryDirectory, removeTemporaryDirectory } from '../../../test/support/temporary-directory.ts';
import { TEST_CERTIFICATE, TEST_KEY } from '../../lib/http/certificate.fixture.ts';
import { ownAuthorities } from './authorities.ts';

const OWN = { authorities: TEST_CERTIFICATE.trim() };

const cases = [
  {
    name: 'the operator’s own are given to pods, and nothing else of their file',
    file: `${TEST_KEY}\n${TEST_CERTIFICATE}`,
  },
  { name: 'those that every Node.js knows are left out', file: [...rootCertificates, TEST_CERTIFICATE].join('\r\n') },
  {
    name: 'one that cannot be parsed is left out and reported',
    file: `${TEST_CERTIFICATE.replace(/MII./, 'AAAA')}\n${TEST_CERTIFICATE}`,
    told: /1 certificates in .*ca\.pem .* cannot be parsed/,
  },
  { name: 'a file without any has none', file: 'nobody', given: {} },
  {
    name: 'too many are reported and not used',
    file: TEST_CERTIFICATE.repeat(100),
    given: {},
    told: /ca\.pem .* has more than 32 KiB .*Keep only your own certificates in it/,
  },
];

for (const { name, file, given = OWN, told = /^$/ } of cases) {
  test(`certification authorities: ${name}`, (t) => {
    const directory = makeTemporaryDirectory();
    t.after(() => removeTemporaryDirectory(directory));
    const path = join(directory, 'ca.pem');
    writeFileSync(path, file);
    const problems: string[] = [];
    assert.deepEqual(
      ownAuthorities((problem) => problems.push(problem), { NODE_EXTRA_CA_CERTS: path }),
      given,
    );
    assert.match(problems.join(''), told);
  });
}

test('certification authorities: none without a file, or with a missing one', () => {
  const fail = (problem: string) => assert.fail(problem);
  assert.deepEqual(ownAuthorities(fail, {}), {});
  assert.deepEqual(ownAuthorities(fail, { NODE_EXTRA_CA_CERTS: '/not/there' }), {});
});
