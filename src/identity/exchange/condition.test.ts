import assert from 'node:assert/strict';
import { test } from 'node:test';
import { endGrant } from '../grants/lifecycle.ts';
import { ADMIN, openVault, submit, user } from '../grants/vault.fixture.ts';
import { grantCondition } from './condition.ts';

const DAY = 24 * 60 * 60_000;
const S1 = { uid: 's1', owner: 'alice' };

test('a service without a grant, and one with a young one, have nothing to tell', async () => {
  await using vault = openVault();
  assert.equal(await grantCondition(S1, vault, 30), undefined);
  await submit('t1', user('alice'), 's1', vault);
  assert.equal(await grantCondition(S1, vault, 30), undefined);
});

test('a grant that has ended says why and since when', async () => {
  await using vault = openVault();
  const id = await submit('t1', user('alice'), 's1', vault);
  vault.now = () => Date.UTC(2026, 0, 2);
  await endGrant(id, 'revoked by its owner', vault);
  assert.deepEqual(await grantCondition(S1, vault, 30), {
    type: 'CredentialsExpired',
    reason: 'revoked by its owner: bring a new refresh token',
    since: '2026-01-02T00:00:00.000Z',
  });
  await submit('t2', user('alice'), 's1', vault);
  assert.equal(await grantCondition(S1, vault, 30), undefined);
});

test('an old grant warns from the day on that the operator has set, unless it is used for nothing', async () => {
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
    reason: 'the refresh token was brought 11 days ago: bring a new one before it expires',
    since: '2026-01-11T00:00:00.000Z',
  });
  assert.equal(await grantCondition({ uid: 's2', owner: 'cluster_admin' }, vault, 10), undefined);
});
