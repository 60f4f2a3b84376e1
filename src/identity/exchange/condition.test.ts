import assert from 'node:assert/strict';
import { test } from 'node:test';
import { endGrant, recordWideToken } from '../grants/lifecycle.ts';
import { ADMIN, openVault, submit, user } from '../grants/vault.fixture.ts';
import { grantCondition, narrowingCondition } from './condition.ts';

const DAY = 24 * 60 * 60_000;
const S1 = { uid: 's1', owner: 'alice' };

test('grant condition: none without a grant, and none for a new grant', async () => {
  await using vault = openVault();
  assert.equal(await grantCondition(S1, vault, 30), undefined);
  await submit('t1', user('alice'), 's1', vault);
  assert.equal(await grantCondition(S1, vault, 30), undefined);
});

test('grant condition: an ended grant shows the reason and the time', async () => {
  await using vault = openVault();
  const id = await submit('t1', user('alice'), 's1', vault);
  vault.now = () => Date.UTC(2026, 0, 2);
  await endGrant(id, 'revoked by its owner', vault);
  assert.deepEqual(await grantCondition(S1, vault, 30), {
    type: 'CredentialsExpired',
    reason: 'revoked by its owner: send a new refresh token',
    since: '2026-01-02T00:00:00.000Z',
  });
  await submit('t2', user('alice'), 's1', vault);
  assert.equal(await grantCondition(S1, vault, 30), undefined);
});

test('grant condition: a grant older than OSCAR_GRANT_WARN_DAYS warns, unless it is local', async () => {
  await using vault = openVault();
  let now = Date.UTC(2026, 0, 1);
  vault.now = () => now;
  await submit('t1', user('alice'), 's1', vault);
  await submit('t2', ADMIN, 's2', vault);
  now += 10 * DAY - 1;
  assert.equal(await grantCondition(S1, vault, 10), undefined);
  now += DAY + 1;
  assert.deepEqual(await grantCondition(S1, vault, 10), {
    type: 'CredentialsOld',
    reason: 'the refresh token was sent 11 days ago: send a new one before it expires',
    since: '2026-01-11T00:00:00.000Z',
  });
  assert.equal(await grantCondition({ uid: 's2', owner: 'cluster_admin' }, vault, 10), undefined);
});

test('narrowing condition: names the current members that get wide tokens, with the reason, until they get narrow ones', async () => {
  await using vault = openVault();
  const clusters = new Set(['go-a', 'go-b']);
  assert.equal(await narrowingCondition(S1, clusters, vault), undefined);
  const id = await submit('t1', user('alice'), 's1', vault);
  await recordWideToken(id, 'go-a', 'the issuer cannot', vault);
  await recordWideToken(id, 'former', 'the issuer cannot', vault);
  assert.deepEqual(await narrowingCondition(S1, clusters, vault), {
    type: 'TokenNotNarrowed',
    reason: '"go-a" gets access tokens that are valid elsewhere too: the issuer cannot',
  });
  await recordWideToken(id, 'go-a', undefined, vault);
  assert.equal(await narrowingCondition(S1, clusters, vault), undefined);
});
