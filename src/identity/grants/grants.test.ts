import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Secret } from '../../lib/secret.ts';
import type { Version } from '../../lib/version.ts';
import { CLUSTER_ADMIN, REFRESH_TOKEN_SLOT } from '../../model/service/index.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import { type SecretStore, StoreError } from '../../ports/index.ts';
import { attachGrant, detachGrants, findGrant } from './attach.ts';
import type { GrantErrorCode } from './errors.ts';
import { type GrantRecord, grantAge, readGrant, tokenHash, type Vault } from './grant.ts';
import { endGrant, proveGrant, recordUse, rotateGrant } from './lifecycle.ts';
import { ADMIN, contents, openVault, removeService, submit, user } from './vault.fixture.ts';

const alice = user('alice');
const bob = user('bob');
const REFUSED: { code: GrantErrorCode } = { code: 'grant-refused' };
const hashOf = (token: string) => tokenHash(new Secret(token));

async function grant(uid: string, vault: Vault, owner = 'alice'): Promise<GrantRecord> {
  const found = await findGrant({ uid, owner }, vault);
  assert.ok(found, `${uid} has no grant`);
  return found;
}

test('attach: an unknown token creates an unproven grant', async () => {
  await using vault = openVault();
  await submit('t1', alice, 's1', vault);
  const { grant: made, token } = await grant('s1', vault);
  assert.equal(made.state, 'unproven');
  assert.equal(made.owner, 'alice');
  assert.deepEqual(made.services, ['s1']);
  assert.deepEqual(made.lineage, [hashOf('t1')]);
  assert.ok(token?.equals('t1'));
  assert.equal(await findGrant({ uid: 's2', owner: 'alice' }, vault), undefined);
});

test('attach: a token that its user sends again joins its grant', async () => {
  await using vault = openVault();
  const first = await submit('t1', alice, 's1', vault);
  assert.equal(await submit('t1', alice, 's2', vault), first);
  assert.equal(await submit('t1', alice, 's2', vault), first);
  assert.deepEqual((await grant('s1', vault)).grant.services, ['s1', 's2']);
  assert.equal((await contents(vault)).grants.length, 1);
});

test("attach: any token of another user's lineage is rejected and not stored", async () => {
  await using vault = openVault();
  const id = await submit('t1', alice, 's1', vault);
  await rotateGrant(id, (await grant('s1', vault)).version, new Secret('t2'), vault);
  const before = await contents(vault);
  for (const token of ['t1', 't2']) {
    for (const other of [bob, ADMIN]) await assert.rejects(submit(token, other, 's2', vault), REFUSED);
  }
  assert.deepEqual(await contents(vault), before);
});

test('attach: the same uid at two issuers is two users', async () => {
  await using vault = openVault();
  await submit('t1', { ...alice, issuer: 'https://a.example' }, 's1', vault);
  await assert.rejects(submit('t1', { ...alice, issuer: 'https://b.example' }, 's2', vault), REFUSED);
  await submit('t1', { ...alice, issuer: 'https://a.example' }, 's2', vault);
});

test('attach: a token sent with Basic credentials is not shared and blocks no user', async () => {
  await using vault = openVault();
  const ids = [await submit('t1', ADMIN, 's1', vault), await submit('t1', ADMIN, 's2', vault)];
  assert.notEqual(ids[0], ids[1]);
  assert.equal(await submit('t1', ADMIN, 's1', vault), ids[0], 'the same service again');
  const hers = await submit('t1', alice, 's3', vault);
  assert.ok(!ids.includes(hers));
  const { grant: local, version } = await grant('s1', vault, CLUSTER_ADMIN);
  assert.equal(local.local, true);
  assert.equal((await grant('s3', vault)).grant.local, false);
  await assert.rejects(rotateGrant(local.id, version, new Secret('t2'), vault), REFUSED);
  assert.equal(await proveGrant(local.id, { issuer: 'i', subject: CLUSTER_ADMIN }, vault), false);
});

test('attach: the administrator may resubmit a service with its current token', async () => {
  await using vault = openVault();
  const id = await submit('t1', alice, 's1', vault);
  assert.equal(await submit('t1', ADMIN, 's1', vault), id);
  assert.equal((await grant('s1', vault)).grant.local, false);
});

test('attach: another token replaces the grant, and the old grant is removed', async () => {
  await using vault = openVault();
  await submit('t1', alice, 's1', vault);
  await submit('t2', alice, 's1', vault);
  const { grants, marks } = await contents(vault);
  assert.equal(grants.length, 1);
  assert.deepEqual([...marks.keys()], [hashOf('t2')]);
});

test('detach: a grant is removed with its last service, and its token can be sent again', async () => {
  await using vault = openVault();
  await submit('t1', alice, 's1', vault);
  await submit('t1', alice, 's2', vault);
  await removeService('s1', vault);
  assert.equal((await contents(vault)).grants.length, 1);
  await removeService('s2', vault);
  await removeService('s2', vault);
  assert.deepEqual((await contents(vault)).keys, []);
  await submit('t1', bob, 's3', vault);
});

test('detach: a service that was never created leaves nothing behind', async () => {
  await using vault = openVault();
  await attachGrant(new Secret('t1'), alice, 's1', vault);
  await attachGrant(new Secret('t2'), alice, 's1', vault);
  await detachGrants('s1', vault);
  assert.deepEqual((await contents(vault)).keys, []);
});

test('rotation: the new token is added to the lineage by compare-and-swap', async () => {
  await using vault = openVault();
  const id = await submit('t1', alice, 's1', vault);
  const { version } = await grant('s1', vault);
  const next = await rotateGrant(id, version, new Secret('t2'), vault);
  await assert.rejects(rotateGrant(id, version, new Secret('t3'), vault), { code: 'conflict' });
  await assert.rejects(rotateGrant('gone', 'v' as Version, new Secret('t3'), vault), { code: 'conflict' });
  const rotated = await grant('s1', vault);
  assert.equal(rotated.version, next);
  assert.ok(rotated.token?.equals('t2'));
  assert.deepEqual(rotated.grant.lineage, [hashOf('t1'), hashOf('t2')]);
  assert.equal(await submit('t1', alice, 's2', vault), id, 'the token that the user knows');
  assert.equal(await submit('t2', alice, 's3', vault), id);
  assert.ok((await grant('s2', vault)).token?.equals('t2'), 'sending an old token does not restore it');
});

test('rotation: the same token again changes nothing', async () => {
  await using vault = openVault();
  const id = await submit('t1', alice, 's1', vault);
  await rotateGrant(id, (await grant('s1', vault)).version, new Secret('t1'), vault);
  assert.deepEqual((await grant('s1', vault)).grant.lineage, [hashOf('t1')]);
});

test('rotation: a token of another grant is rejected', async () => {
  await using vault = openVault();
  const id = await submit('t1', alice, 's1', vault);
  await submit('t2', bob, 's2', vault);
  await assert.rejects(rotateGrant(id, (await grant('s1', vault)).version, new Secret('t2'), vault), REFUSED);
});

test('rotation: a long lineage keeps the token that was sent and the newest ones', async () => {
  await using vault = openVault();
  const id = await submit('t0', alice, 's1', vault);
  let { version, grant: made, token } = await grant('s1', vault);
  // As if the issuer had already rotated the token 999 times.
  const lineage = [...made.lineage, ...Array.from({ length: 999 }, (_, n) => `${n}`)];
  const values = { grant: new Secret(JSON.stringify({ ...made, lineage })), ...(token && { token }) };
  version = await vault.secrets.put('grant', `grant/${id}`, values, version);
  await vault.secrets.put('grant', 'token/0', { grant: new Secret(id) });
  await rotateGrant(id, version, new Secret('new'), vault);
  ({ grant: made } = await grant('s1', vault));
  assert.equal(made.lineage.length, 1000);
  assert.deepEqual(made.lineage.slice(0, 2), [hashOf('t0'), '1']);
  assert.equal(made.lineage.at(-1), hashOf('new'));
  assert.equal((await contents(vault)).marks.has('0'), false);
});

test("proof: the first exchange confirms the user, and another user's token ends the grant", async () => {
  await using vault = openVault();
  const [good, stolen] = [await submit('t1', alice, 's1', vault), await submit('t2', bob, 's2', vault)];
  assert.equal(await proveGrant(good, { issuer: 'https://i', subject: 'alice' }, vault), true);
  assert.equal(await proveGrant(good, { issuer: 'https://i', subject: 'alice' }, vault), true, 'again');
  const { grant: proven } = await grant('s1', vault);
  assert.deepEqual([proven.state, proven.issuer, proven.subject], ['proven', 'https://i', 'alice']);

  assert.equal(await proveGrant(stolen, { issuer: 'https://i', subject: 'alice' }, vault), false);
  const ended = await grant('s2', vault);
  assert.deepEqual([ended.grant.state, ended.grant.reason, ended.token], ['ended', "another user's token", undefined]);
  await submit('t2', alice, 's3', vault);
  assert.equal((await grant('s3', vault)).grant.state, 'unproven', 'its real user may send it');
});

test('attach: a new token replaces an ended grant', async () => {
  await using vault = openVault();
  const id = await submit('t1', alice, 's1', vault);
  await endGrant(id, 'revoked', vault);
  await endGrant(id, 'again', vault);
  assert.equal((await grant('s1', vault)).grant.reason, 'revoked');
  await assert.rejects(rotateGrant(id, (await grant('s1', vault)).version, new Secret('t2'), vault), {
    code: 'conflict',
  });
  assert.notEqual(await submit('t1', alice, 's1', vault), id);
  const { grants, marks } = await contents(vault);
  assert.deepEqual(
    grants.map(({ state }) => state),
    ['unproven'],
  );
  assert.deepEqual([...marks.values()], [grants[0]?.id]);
});

test('attach: concurrent services with one token share one grant', async () => {
  await using vault = openVault();
  const ids = await Promise.all(Array.from({ length: 12 }, (_, n) => submit('t1', alice, `s${n}`, vault)));
  assert.equal(new Set(ids).size, 1);
  assert.equal((await grant('s0', vault)).grant.services.length, 12);
});

test('attach: more concurrent services with one token than attempts all succeed', async () => {
  await using vault = openVault();
  const services = Array.from({ length: 120 }, (_, n) => `s${n}`);
  const ids = await Promise.all(services.map((service) => attachGrant(new Secret('t1'), alice, service, vault)));
  assert.equal(new Set(ids).size, 1);
  assert.deepEqual((await readGrant(ids[0] ?? '', vault))?.grant.services.toSorted(), services.toSorted());
});

test('attach: of two users who send one token concurrently, one gets the grant', async () => {
  await using vault = openVault();
  const people = [alice, bob];
  const tries = people.map((who, n) => submit('t1', who, `s${n}`, vault));
  const outcomes = await Promise.allSettled(tries);
  assert.deepEqual(outcomes.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected']);
  assert.equal((await contents(vault)).grants.filter(({ local }) => !local).length, 1);
});

test("attach: joining a grant that ends and is replaced by another user's leaves no holdings", async () => {
  await using vault = openVault();
  const first = await submit('t1', alice, 's1', vault);
  let ended = false;
  const put: SecretStore['put'] = async (room, key, values, expected) => {
    if (!ended && key === `grant/${first}`) {
      ended = true;
      await endGrant(first, 'expired', vault);
      await submit('t1', bob, 's3', vault);
    }
    return vault.secrets.put(room, key, values, expected);
  };
  const { secrets } = vault;
  const meddled: SecretStore = {
    put,
    get: (room, key) => secrets.get(room, key),
    remove: (room, key) => secrets.remove(room, key),
    keys: (room, cursor) => secrets.keys(room, cursor),
  };
  await assert.rejects(submit('t1', alice, 's2', { ...vault, secrets: meddled }), REFUSED);
  assert.equal(ended, true);
  assert.deepEqual([...(await contents(vault)).holdings.keys()].toSorted(), ['s1', 's3']);
});

test('attach: an index entry with an interrupted removal blocks its token for a limited time', async () => {
  await using vault = openVault();
  const begun = Date.now();
  await vault.secrets.put('grant', `token/${hashOf('t1')}`, {
    grant: new Secret('gone'),
    leaving: new Secret(String(begun)),
  });
  vault.now = () => begun;
  await assert.rejects(attachGrant(new Secret('t1'), alice, 's1', vault), { code: 'unavailable' });
  vault.now = () => begun + 30_001;
  await submit('t1', alice, 's1', vault);
  assert.equal((await contents(vault)).marks.size, 1);
});

test('attach: a token that is sent while its grant is removed keeps its index entry', async () => {
  await using vault = openVault();
  await submit('t1', alice, 's1', vault);
  await vault.secrets.remove('credentials', 's1');
  const { secrets } = vault;
  let brought: Promise<string> | undefined;
  /** How often the concurrent attach has read the index entry, and whether it has finished. */
  let looks = 0;
  let isDone = false;
  const watched: typeof secrets = {
    ...plain(secrets),
    get: (room, key) => {
      if (key.startsWith('token/')) looks++;
      return secrets.get(room, key);
    },
  };
  const slow: typeof secrets = {
    ...plain(secrets),
    async remove(room, key) {
      if (key.startsWith('token/')) {
        brought = submit('t1', alice, 's2', { ...vault, secrets: watched }).finally(() => {
          isDone = true;
        });
        await eventually(() => assert.ok(isDone || looks >= 3));
      }
      await secrets.remove(room, key);
    },
  };
  await detachGrants('s1', { ...vault, secrets: slow });
  const id = await brought;
  assert.deepEqual([...(await contents(vault)).marks.values()], [id]);
});

const plain = (secrets: SecretStore): SecretStore => ({
  get: (room, key) => secrets.get(room, key),
  keys: (room, cursor) => secrets.keys(room, cursor),
  put: (room, key, values, expected) => secrets.put(room, key, values, expected),
  remove: (room, key) => secrets.remove(room, key),
});

test('detach: a crash during the removal of a grant is completed by the next call', async () => {
  await using vault = openVault();
  const id = await submit('t1', alice, 's1', vault);
  await rotateGrant(id, (await grant('s1', vault)).version, new Secret('t2'), vault);
  await vault.secrets.remove('credentials', 's1');
  for (let steps = 0; ; steps++) {
    let left = steps;
    const step = <T>(go: () => Promise<T>) =>
      left-- > 0 ? go() : Promise.reject(new StoreError('unavailable', 'dies here'));
    const dying: SecretStore = {
      ...plain(vault.secrets),
      put: (...args) => step(() => vault.secrets.put(...args)),
      remove: (...args) => step(() => vault.secrets.remove(...args)),
    };
    const died = await detachGrants('s1', { ...vault, secrets: dying }).then(
      () => false,
      () => true,
    );
    if (!died) break;
    assert.ok((await contents(vault)).holdings.has('s1'), 'the remains can be found');
  }
  assert.deepEqual((await contents(vault)).keys, []);
});

test('migration: a token stored by the service itself moves to the vault at first use', async () => {
  await using vault = openVault();
  const old = { [REFRESH_TOKEN_SLOT]: new Secret('t1'), 'clusters/b/auth_password': new Secret('pw') };
  for (const uid of ['s1', 's2']) await vault.secrets.put('credentials', uid, old);
  const [one, other] = await Promise.all([grant('s1', vault), grant('s1', vault)]);
  assert.equal(one.grant.id, other.grant.id);
  assert.ok(one.token?.equals('t1'));
  const { values } = (await vault.secrets.get('credentials', 's1')) ?? {};
  assert.deepEqual(Object.keys(values ?? {}).toSorted(), ['clusters/b/auth_password', 'federation/grant']);
  assert.equal(await findGrant({ uid: 's2', owner: 'bob' }, vault), undefined, 'it belongs to another user');
  const left = (await vault.secrets.get('credentials', 's2'))?.values ?? {};
  assert.deepEqual(Object.keys(left), ['clusters/b/auth_password']);
});

test('grant age: counts from the time when the token was sent', async () => {
  await using vault = openVault();
  vault.now = () => 1000;
  await submit('t1', alice, 's1', vault);
  const { grant: made } = await grant('s1', vault);
  assert.equal(grantAge(made, 5000), 4000);
  assert.equal(grantAge(made, 500), 0, 'a clock that was set back');
});

test('audit log: each use is one line with owner, purpose and time, and no secret', () => {
  const lines: unknown[] = [];
  recordUse(
    { grant: 'g1', owner: 'alice', service: 's1', why: 'to make a member', at: 0 },
    { info: (fields, message) => void lines.push([fields, message]) },
  );
  const fields = {
    grant: 'g1',
    owner: 'alice',
    service: 's1',
    why: 'to make a member',
    at: '1970-01-01T00:00:00.000Z',
  };
  assert.deepEqual(lines, [[{ audit: 'grant', ...fields }, 'refresh token used']]);
});
