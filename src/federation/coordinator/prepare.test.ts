import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Coordination } from './coordination.ts';
import { createFederation } from './create-federation.ts';
import { Ledgers } from './ledger.ts';
import { alice, coordination, federatedBody, worldOf } from './model/coordinator.fixture.ts';
import { prepareChange } from './prepare.ts';

/** A federation whose definition has got another member. */
async function scene() {
  const world = worldOf('b', 'c');
  const deps = coordination(world);
  const { record } = await createFederation(alice, federatedBody(['b']), deps);
  const [entry] = await Array.fromAsync(new Ledgers(deps).all());
  const role = record.service.federation;
  assert.ok(entry && role);
  const { federation } = (await createFederation(alice, { ...federatedBody(['c']), name: 'model' }, deps)).record
    .service.definition;
  const members = [...(record.service.definition.federation?.members ?? []), ...(federation?.members ?? [])];
  const definition = { ...record.service.definition, federation: { group_id: 'demo', topology: 'star', members } };
  const service = { ...record.service, definition, federation: { ...role, revision: 2 } };
  const keys = () => [...world.cluster.secrets.keys()].filter((key) => key.startsWith('member ')).length;
  return { world, deps, entry, service, keys };
}

/** Another task changes the ledger while the keys are being stored. */
const meddled = (deps: Coordination, meddle: () => Promise<unknown>): Coordination => ({
  ...deps,
  secrets: {
    ...deps.secrets,
    put: async (...parameters) => {
      const version = await deps.secrets.put(...parameters);
      await meddle();
      return version;
    },
  },
});

test('prepare: ledger and keys are written before any member is asked', async () => {
  const { deps, entry, service, keys } = await scene();
  const before = keys();
  const prepared = await prepareChange(entry, service, { renew: false }, deps);
  assert.equal(prepared?.orders.size, 2);
  assert.equal(keys(), before + 1);
  assert.deepEqual((await new Ledgers(deps).read(entry.ledger.uid))?.ledger, prepared.entry.ledger);
});

test('prepare: a definition older than the ledger is sent to no member', async () => {
  const { deps, entry, service } = await scene();
  const later = { ...entry, ledger: { ...entry.ledger, revision: 3 } };
  assert.equal(await prepareChange(later, service, { renew: false }, deps), undefined);
});

test('prepare: a task that was overtaken stops, and leaves the keys that the ledger names', async () => {
  const { deps, entry, service, keys } = await scene();
  const before = keys();
  const meddling = meddled(deps, async () => {
    const current = await new Ledgers(deps).read(entry.ledger.uid);
    if (current) await new Ledgers(deps).claim(current);
  });
  assert.equal(await prepareChange(entry, service, { renew: false }, meddling), undefined);
  assert.equal(keys(), before + 1);
});

test('prepare: a task that was overtaken by the removal of the federation leaves no key', async () => {
  const { world, deps, entry, service, keys } = await scene();
  const before = keys();
  const meddling = meddled(deps, async () => world.cluster.journal.clear());
  assert.equal(await prepareChange(entry, service, { renew: false }, meddling), undefined);
  assert.equal(keys(), before);
});
