import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Service } from '../../model/service/index.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import type { ServiceRecord, StandbyRequest } from '../../ports/index.ts';
import { openJobs } from '../jobs.fixture.ts';
import { limitPerOwner, maintainStandby, standbyRequestFor } from './warm.ts';

const counts = (orders: readonly StandbyRequest[] | undefined) =>
  Object.fromEntries((orders ?? []).map(({ service, count }) => [service, count]));

const cases = [
  { name: 'none without min_scale', synchronous: {}, count: undefined },
  { name: 'min_scale pods', synchronous: { min_scale: 3 }, count: 3 },
  { name: 'at most max_scale', synchronous: { min_scale: 3, max_scale: 2 }, count: 2 },
  { name: 'min_scale below max_scale', synchronous: { min_scale: 1, max_scale: 5 }, count: 1 },
  { name: 'at most 100', synchronous: { min_scale: 100_000 }, count: 100 },
];

for (const { name, synchronous, count } of cases) {
  test(`standby of a service: ${name}`, async () => {
    await using jobs = await openJobs();
    const { service } = await jobs.service('demo', { synchronous, memory: '1Gi' });
    const order = standbyRequestFor(service);
    assert.equal(order?.count, count);
    if (order) assert.deepEqual([order.image, order.demand.memory], ['busybox', 2 ** 30]);
  });
}

const TOGETHER = [
  { name: 'all requests within the limit', wants: { b: 2, a: 1 }, most: 10, has: { a: 1, b: 2 } },
  { name: 'in turns, sorted by name', wants: { c: 5, a: 1, b: 5 }, most: 6, has: { a: 1, b: 3, c: 2 } },
  {
    name: 'the first services, if there are more services than pods',
    wants: { c: 1, b: 9, a: 3 },
    most: 2,
    has: { a: 1, b: 1 },
  },
  { name: 'none with a limit of 0', wants: { a: 1 }, most: 0, has: {} },
];

for (const { name, wants, most, has } of TOGETHER) {
  test(`standby of one owner: ${name}`, async () => {
    await using jobs = await openJobs();
    const { service } = await jobs.service('demo', { synchronous: { min_scale: 1 } });
    const order = standbyRequestFor(service);
    assert.ok(order);
    const of = (owner: string) =>
      Object.entries(wants).map(([each, count]) => ({
        owner,
        order: { ...order, service: `${owner}-${each}`, count },
      }));
    const named = (owner: string, some: object) =>
      Object.entries(some).map(([each, count]) => [`${owner}-${each}`, count]);
    const wishes = [...of('alice'), ...of('bob'), ...of('cluster_admin')];
    assert.deepEqual(
      counts(limitPerOwner(wishes, most)),
      Object.fromEntries([...named('alice', has), ...named('bob', has), ...named('cluster_admin', wants)]),
    );
  });
}

test('standby: a worker of a federation has none', async () => {
  await using jobs = await openJobs();
  const { service } = await jobs.service('demo', { synchronous: { min_scale: 1 } });
  const worker = { ...service, federation: { role: 'worker' } } as Service;
  assert.equal(standbyRequestFor(worker), undefined);
});

test('standby: requests follow the services until the term ends', async () => {
  await using jobs = await openJobs();
  const { services } = jobs;
  await jobs.service('first', { synchronous: { min_scale: 1 } });
  const said: (readonly StandbyRequest[])[] = [];
  const over = new AbortController();
  const standby = { setRequests: (orders: readonly StandbyRequest[]) => void said.push(orders) };
  const keeping = maintainStandby(services, standby, 10, (problem) => assert.fail(String(problem)), over.signal);
  const says = (expected: Record<string, number>) => eventually(() => assert.deepEqual(counts(said.at(-1)), expected));
  await says({ first: 1 });

  await jobs.service('silent');
  const second = await jobs.service('second', { synchronous: { min_scale: 2 } });
  await says({ first: 1, second: 2 });
  const changed = await replaced(second, { min_scale: 0 });
  await says({ first: 1 });
  await services.remove('first', (await services.get('first'))?.version ?? changed.version);
  await says({});

  over.abort();
  await keeping;
  const before = said.length;
  await jobs.service('third', { synchronous: { min_scale: 1 } });
  assert.equal(said.length, before);

  async function replaced({ service, version }: ServiceRecord, synchronous: { min_scale: number }) {
    const definition = { ...service.definition, synchronous: { ...service.definition.synchronous, ...synchronous } };
    return services.replace({ ...service, definition }, version);
  }
});
