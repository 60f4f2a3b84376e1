import assert from 'node:assert/strict';
import { PeerError } from '../../peers/index.ts';
import { parseMembersChange } from '../members.ts';
import { changeFederation } from './change-federation.ts';
import { createFederation } from './create-federation.ts';
import { type LedgerMember, Ledgers, memberId } from './ledger.ts';
import { alice, coordination, federatedBody, memberOn, type World, worldOf } from './model/coordinator.fixture.ts';
import { openPassage, type Passage } from './model/model-cluster.fixture.ts';

/** The federation of `demo`, with members on these of the clusters b, c and d. */
export async function made(...clusters: string[]): Promise<World> {
  const world = worldOf('b', 'c', 'd');
  await createFederation(alice, federatedBody(clusters), coordination(world));
  return world;
}

/** No request reaches these clusters. */
export const away = (...clusters: string[]): Passage => ({
  ...openPassage,
  request: (cluster, _call, effect) => {
    if (clusters.includes(cluster)) throw new PeerError('unreachable', 'it did not answer');
    return effect();
  },
});

export const serviceOf = ({ cluster }: World) => {
  const service = cluster.services.get('demo')?.service;
  assert.ok(service);
  return service;
};

/** The part of the federation that a cluster has. */
export const worker = (world: World, id: string) => world.managers.get(id)?.services.get(`demo-${id}`);

export async function states(world: World): Promise<Record<string, LedgerMember['state']>> {
  const entry = await new Ledgers(coordination(world)).read(serviceOf(world).federation?.uid ?? '');
  return Object.fromEntries((entry?.ledger.members ?? []).map((each) => [memberId(each), each.state]));
}

export async function onlyMember(world: World): Promise<LedgerMember> {
  const entry = await new Ledgers(coordination(world)).read(serviceOf(world).federation?.uid ?? '');
  const [member] = entry?.ledger.members ?? [];
  assert.ok(member);
  return member;
}

/** The owner of a worker has deleted it on its cluster, and the coordinator has noticed. */
export async function endedByOwner(world: World, id: string): Promise<void> {
  const manager = world.managers.get(id);
  manager?.tombstones.add(worker(world, id)?.worker?.keyId ?? '');
  manager?.services.delete(`demo-${id}`);
  await changeFederation(alice, { ...federatedBody([]), script: 'new' }, undefined, coordination(world));
}

export const post = (...ids: string[]) => parseMembersChange('POST', { members: ids.map(memberOn) });
export const remove = (...ids: string[]) => parseMembersChange('DELETE', { members: ids.map(memberOn) });

/** A plain service. */
export async function plain(world: World, more: Record<string, unknown> = {}): Promise<void> {
  const deps = coordination(world);
  const { federation: _, ...body } = federatedBody([]);
  const record = await deps.own.create(
    alice.principal,
    { ...body, ...more },
    { role: 'coordinator', uid: '', revision: 0, committed: true },
  );
  const { federation: __, ...service } = record.service;
  await deps.services.replace(service, record.version);
}
