import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Secret } from '../../lib/secret.ts';
import { readGrant } from './grant.ts';
import { acquireGrantLock, GRANT_LOCK_MS, releaseGrantLock } from './grant-lock.ts';
import { endGrant, rotateGrant } from './lifecycle.ts';
import { openVault, submit, user } from './vault.fixture.ts';

const alice = user('alice');

test('grant lock: one of many holds it, and the next acquires it after the release', async () => {
  await using vault = openVault();
  const id = await submit('t1', alice, 's1', vault);
  let [holders, most] = [0, 0];
  const takeAndEnd = async () => {
    const turn = await acquireGrantLock(id, vault);
    assert.ok(turn);
    holders += 1;
    most = Math.max(most, holders);
    // Other services join the grant concurrently.
    await submit('t1', alice, turn.holder, vault);
    holders -= 1;
    await releaseGrantLock(id, turn.holder, vault);
  };
  await Promise.all(Array.from({ length: 8 }, takeAndEnd));
  assert.equal(most, 1);
  assert.equal((await readGrant(id, vault))?.grant.turn, undefined);
});

test('grant lock: an unreleased lock expires, also if the clock was set back', async () => {
  await using vault = openVault();
  const start = Date.now();
  const id = await submit('t1', alice, 's1', vault);
  const died = await acquireGrantLock(id, vault);
  vault.now = () => start + 2 * GRANT_LOCK_MS;
  const next = await acquireGrantLock(id, vault);
  assert.ok(died && next);
  await releaseGrantLock(id, died.holder, vault);
  assert.equal(
    (await readGrant(id, vault))?.grant.turn?.holder,
    next.holder,
    'a late release by a former holder is a no-op',
  );
  vault.now = () => start;
  assert.ok(await acquireGrantLock(id, vault));
});

test('grant lock: a rotation releases it, and an ended grant cannot be locked', async () => {
  await using vault = openVault();
  const id = await submit('t1', alice, 's1', vault);
  const turn = await acquireGrantLock(id, vault);
  assert.ok(turn);
  await rotateGrant(id, turn.version, new Secret('t2'), vault);
  assert.equal((await readGrant(id, vault))?.grant.turn, undefined);
  const again = await acquireGrantLock(id, vault);
  assert.ok(again);
  assert.ok(again.token.equals('t2'));
  await endGrant(id, 'refused', vault, new Secret('t1'));
  assert.equal((await readGrant(id, vault))?.grant.state, 'unproven', 'the refused token is not the current one');
  await endGrant(id, 'refused', vault, again.token);
  assert.equal((await readGrant(id, vault))?.grant.turn, undefined);
  assert.equal(await acquireGrantLock(id, vault), undefined);
  assert.equal(await acquireGrantLock('gone', vault), undefined);
});
