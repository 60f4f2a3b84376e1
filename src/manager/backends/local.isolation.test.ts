import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readConfig } from '../../config/index.ts';
import { requireIsolation } from './local.ts';

const none = { user_ids: true, namespaces: false, enforced: [], reason: 'there is no compiler' };
const SEVERAL = { OIDC_ENABLE: 'true', OIDC_ISSUERS: 'https://issuer.example.org' };
const settings = (given: Record<string, string>) => readConfig({ OSCAR_DATA_DIR: '/nowhere', ...given }, () => '');

test('isolation: a manager with several users and without namespaces does not start, and says what to do', () => {
  assert.throws(
    () => requireIsolation(settings(SEVERAL), none),
    /there is no compiler.*OSCAR_ALLOW_UNISOLATED_SCRIPTS=true/,
  );
});

for (const [name, given, isolation] of [
  ['an administrator alone is served without namespaces', {}, none],
  ['several users are served in namespaces', SEVERAL, { ...none, namespaces: true }],
  ['several users are served if the setting says so', { ...SEVERAL, OSCAR_ALLOW_UNISOLATED_SCRIPTS: 'true' }, none],
] as const) {
  test(`isolation: ${name}`, () => requireIsolation(settings(given), { ...isolation, enforced: [] }));
}
