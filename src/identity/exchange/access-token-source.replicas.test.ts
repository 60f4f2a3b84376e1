import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { ALICE } from '../../../test/support/issuer-users.ts';
import { seededRandom } from '../../../test/support/seeded-random.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import { acquireGrantLock, GRANT_LOCK_MS } from '../grants/grant-lock.ts';
import { submit } from '../grants/vault.fixture.ts';
import { asUser, HOUR, openExchange, toService } from './exchange.fixture.ts';

const S1 = toService('s1');

test('grant lock: managers that share a vault never send a refresh token twice', async () => {
  await fc.assert(
    fc.asyncProperty(fc.integer(), fc.integer({ min: 2, max: 4 }), async (seed, managers) => {
      await using exchange = await openExchange({ random: seededRandom(seed) });
      const brought = await exchange.submit('s1');
      const sources = Array.from({ length: managers }, () => exchange.replica());
      for (let round = 1; round <= 3; round++) {
        exchange.wait(HOUR);
        const uses = sources.flatMap((source) => [source.getToken(S1, 'offer'), source.getToken(S1, 'offer')]);
        // Other services join the grant concurrently.
        const joins = [1, 2].map((n) =>
          submit(brought, asUser(ALICE, exchange.issuer.url), `j${round}-${n}`, exchange.vault),
        );
        await Promise.all([...uses, ...joins]);
      }
      const { grant, token } = await exchange.grant('s1');
      assert.equal(grant.lineage.length, 1 + 3 * managers, 'each manager has exchanged once in each round');
      // If a token had been reused, the issuer would have revoked the whole lineage.
      await exchange.issuer.refresh(token?.reveal() ?? '');
    }),
    { numRuns: 2 * Number(process.env['OSCAR_TEST_ROUNDS'] ?? 3) },
  );
});

test('grant lock: other managers wait for a crashed holder until its lock expires', async () => {
  await using exchange = await openExchange();
  await exchange.submit('s1');
  const { grant } = await exchange.grant('s1');
  await acquireGrantLock(grant.id, exchange.vault);
  let isDone = false;
  const pending = exchange.tokens.getToken(S1, 'offer').finally(() => (isDone = true));
  const asked = exchange.issuer.requests;
  await eventually(() => assert.equal(asked.discovery, 1));
  exchange.wait(GRANT_LOCK_MS - 1000);
  assert.deepEqual([isDone, asked.token], [false, 1]);
  exchange.wait(2000);
  await pending;
  assert.equal(asked.token, 2);
});

test('revocation: waits for a running exchange and revokes its new refresh token', async () => {
  await using exchange = await openExchange();
  await exchange.submit('s1');
  const [obtained] = await Promise.allSettled([
    exchange.tokens.getToken(S1, 'offer'),
    exchange.replica().revokeGrant(S1),
  ]);
  const { grant, token } = await exchange.grant('s1');
  assert.deepEqual([grant.reason, token], ['revoked by its owner', undefined]);
  if (obtained.status === 'rejected') assert.equal(obtained.reason.code, 'credentials-expired');
  await assert.rejects(exchange.tokens.getToken(S1, 'offer'), { code: 'credentials-expired' });
});
