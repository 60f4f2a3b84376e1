import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { seededRandom } from '../../../test/support/seeded-random.ts';
import { Secret } from '../../lib/secret.ts';
import { isRace } from '../../ports/index.ts';
import { readGrantSlot } from './attach.ts';
import { GrantError } from './errors.ts';
import { isAlive, readGrant, type Vault } from './grant.ts';
import { endGrant, rotateGrant } from './lifecycle.ts';
import { ADMIN, contents, openVault, removeService, submit, user } from './vault.fixture.ts';

/** Services and their owners. */
const OWNERS: Record<string, string> = { a1: 'alice', a2: 'alice', a3: 'alice', b1: 'bob', b2: 'bob' };

type Step =
  | { readonly kind: 'bring'; readonly service: string; readonly token: string; readonly asAdmin: boolean }
  | { readonly kind: 'rotate'; readonly service: string; readonly token: string }
  | { readonly kind: 'remove'; readonly service: string }
  | { readonly kind: 'end'; readonly service: string };

const service = fc.constantFrom(...Object.keys(OWNERS));
const token = fc.constantFrom('t1', 't2', 't3');
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('bring' as const),
      service,
      token,
      asAdmin: fc.integer({ min: 0, max: 5 }).map((n) => n === 0),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('remove' as const), service }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('end' as const), service }) },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('rotate' as const), service, token: fc.constantFrom('r1', 'r2', 't3') }),
  },
);

/** The steps of a group run concurrently, each for another service. */
const group = fc.uniqueArray(step, { minLength: 1, maxLength: 4, selector: ({ service: which }) => which });

async function take(each: Step, vault: Vault): Promise<void> {
  if (each.kind === 'remove') return removeService(each.service, vault);
  if (each.kind === 'bring') {
    const who = each.asAdmin ? ADMIN : user(OWNERS[each.service] ?? '');
    await submit(each.token, who, each.service, vault);
    return;
  }
  const id = await readGrantSlot(each.service, vault);
  const record = id === undefined ? undefined : await readGrant(id, vault);
  if (!id || !record) return;
  if (each.kind === 'end') return endGrant(id, 'ended', vault);
  await rotateGrant(id, record.version, new Secret(each.token), vault);
}

/** A rejection and a conflict are valid outcomes. */
async function attempt(each: Step, vault: Vault): Promise<void> {
  await take(each, vault).catch((error) => {
    if (!(error instanceof GrantError) && !isRace(error)) throw error;
  });
}

async function assertSound(vault: Vault): Promise<void> {
  const { grants, marks, holdings } = await contents(vault);
  const byId = new Map(grants.map((grant) => [grant.id, grant]));
  const shared = grants.filter((grant) => isAlive(grant) && !grant.local);

  const held = shared.flatMap(({ lineage }) => lineage);
  assert.equal(new Set(held).size, held.length, 'a token is in two grants');
  for (const { id, lineage } of shared)
    for (const hash of lineage) assert.equal(marks.get(hash), id, 'a missing index entry');
  for (const [hash, id] of marks) assert.ok(byId.get(id)?.lineage.includes(hash), 'an index entry without a grant');

  for (const { id, owner, local, services } of grants) {
    assert.ok(services.length > 0, 'a grant without services');
    if (local) assert.equal(services.length, 1, 'a grant of a Basic caller is shared');
    for (const uid of services) {
      assert.equal(await readGrantSlot(uid, vault), id, 'a grant that is not in the slot of its service');
      assert.ok(holdings.get(uid)?.includes(id));
      if (!local) assert.equal(OWNERS[uid], owner, 'a grant of another user');
    }
  }
  for (const uid of Object.keys(OWNERS)) {
    const slot = await readGrantSlot(uid, vault);
    if (slot !== undefined) assert.ok(byId.get(slot)?.services.includes(uid), 'a slot without a grant');
    else assert.equal(holdings.has(uid), false, 'a service without a slot has holdings');
  }
}

const keepsPromises = (groups: Step[][], vault: Vault) =>
  groups.reduce(async (before, each) => {
    await before;
    await Promise.all(each.map((one) => attempt(one, vault)));
    await assertSound(vault);
  }, Promise.resolve());

test('grants: after any concurrent steps each token is in one grant, of its own user, and nothing is orphaned', async () => {
  const runs = fc.array(group, { minLength: 1, maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(runs, fc.integer(), async (groups, seed) => {
      await using vault = openVault(seededRandom(seed));
      await keepsPromises(groups, vault);
      for (const uid of Object.keys(OWNERS)) await removeService(uid, vault);
      assert.deepEqual((await contents(vault)).keys, []);
    }),
    { numRuns: 10 * Number(process.env['OSCAR_TEST_ROUNDS'] ?? 3) },
  );
});
