import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Live } from '../../api/live.ts';
import type { Service } from '../../api/queries.ts';
import { toGraph } from './clusters.ts';
import { placeClusters, SMALL_CARD } from './places.ts';

const live = (parts: Partial<Live> = {}): Live => ({
  connected: true,
  jobs: new Map(),
  members: new Map(),
  resyncs: 0,
  ...parts,
});

const service = (name: string, topology: string, clusters: readonly string[]) =>
  ({
    name,
    cluster_id: 'home',
    federation: {
      topology,
      members: clusters.map((cluster_id) => ({ type: 'oscar', cluster_id, service_name: name })),
    },
  }) as unknown as Service;

const lines = ({ links }: ReturnType<typeof toGraph>) => links.map(({ from, to }) => `${from}-${to}`).toSorted();

test('graph: a star has links from its coordinator, a mesh also between its members', () => {
  assert.deepEqual(lines(toGraph([service('s', 'star', ['a', 'b'])], live(), undefined, 'home')), ['home-a', 'home-b']);
  const mesh = toGraph([service('s', 'mesh', ['a', 'b'])], live(), undefined, 'home');
  assert.deepEqual(lines(mesh), ['a-b', 'home-a', 'home-b']);
});

test('graph: a link shows the worst state of the services that use it', () => {
  const state = (name: string, value: 'ready' | 'unreachable') =>
    [`${name} a/${name}`, { service: name, member: `a/${name}`, state: value, at: '' }] as const;
  const members = new Map([state('one', 'ready'), state('two', 'unreachable')]);
  const services = [service('one', 'star', ['a']), service('two', 'star', ['a'])];
  const { links } = toGraph(services, live({ members }), undefined, 'home');
  assert.deepEqual(
    links.map(({ state: shown }) => shown),
    ['unreachable'],
  );
});

test('graph: running jobs are counted at their cluster, queued jobs at this one', () => {
  const jobs = new Map(
    [
      ['1', { phase: 'Running', place: 'a' }],
      ['2', { phase: 'Running', place: 'a' }],
      ['3', { phase: 'Pending' }],
      ['4', { phase: 'Succeeded', place: 'a' }],
    ].map(([key, job]) => [key, job]),
  ) as unknown as Live['jobs'];
  const { clusters } = toGraph([service('s', 'star', ['a'])], live({ jobs }), undefined, 'home');
  assert.deepEqual(
    clusters.map(({ id, running, queued }) => [id, running, queued]),
    [
      ['home', 0, 1],
      ['a', 2, 0],
    ],
  );
});

test('graph: a cluster tells what is wrong there, and why', () => {
  const away = { service: 's', member: 'a/s', state: 'unreachable', reason: 'no answer', at: '' } as const;
  const known = { clusters: [{ cluster_id: 'a', self: false, problem: 'connection refused' }], conditions: [] };
  const { clusters } = toGraph(
    [service('s', 'star', ['a'])],
    live({ members: new Map([['s a/s', away]]) }),
    known,
    'home',
  );
  assert.deepEqual(clusters[1]?.problems, ['s: unreachable, no answer', 'connection refused']);
});

test('graph: no two of 120 clusters are drawn on each other', () => {
  const ids = Array.from({ length: 120 }, (_, index) => `cluster-${index}`);
  const places = [...placeClusters(ids, SMALL_CARD).values()];
  assert.equal(places.length, 120);
  for (const [index, one] of places.entries()) {
    for (const other of places.slice(index + 1)) {
      const apart = Math.abs(one.x - other.x) >= SMALL_CARD.width || Math.abs(one.y - other.y) >= SMALL_CARD.height;
      assert.ok(apart, `${JSON.stringify(one)} and ${JSON.stringify(other)}`);
    }
  }
});
