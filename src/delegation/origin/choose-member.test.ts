import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PlacementMode } from '../../jobs/index.ts';
import { Secret } from '../../lib/secret.ts';
import type { Version } from '../../lib/version.ts';
import type { Snapshot } from '../../model/cluster-snapshot.ts';
import type { JobRecord } from '../../model/job/index.ts';
import { aService } from '../../model/service/service.fixture.ts';
import { sampleJob, sampleProgress } from '../../ports/conformance/sample-job.ts';
import { chooseMember, summarizeRefusals } from './choose-member.ts';
import type { DelegationMember } from './federation-cache.ts';
import { ScriptedTarget } from './scripted-target.fixture.ts';

const SELF = 'here/demo';

const room = (cpu: number): Snapshot => ({
  nodes: [{ cpu, memory: 2 ** 40, gpu: 0 }],
  freeCpu: cpu,
  nodeCount: 1,
  age: 0,
});

const memberOf = (id: string, unfit?: string): DelegationMember => ({
  id,
  type: 'oscar',
  place: id,
  service: 'demo',
  priority: 0,
  endpoint: id,
  sendsReports: true,
  target: new ScriptedTarget(id),
  credentials: { uid: 'u', member: id, key: new Secret('k') },
  ...(unfit !== undefined && { ineligible: unfit }),
});

interface Case {
  readonly name: string;
  readonly mode?: PlacementMode;
  readonly federation?: Record<string, unknown>;
  readonly openedBy?: string;
  readonly unfit?: Record<string, string>;
  readonly refusals?: Record<string, string>;
  readonly last?: string;
  /** Millicores that are free; 4000 if left out. */
  readonly free?: Record<string, number>;
  /** Who just said that there is no room. */
  readonly full?: readonly string[];
  readonly waiting?: number;
  /** Millicores that were just decided to be used here. */
  readonly enteringQueue?: number;
  /** For how long, in milliseconds, this cluster has not let it start. */
  readonly held?: { readonly for: number };
  /** Who may be asked, in this order. */
  readonly order: readonly string[];
}

const cases: Case[] = [
  { name: 'members come in their order', order: ['b', 'c', 'd'] },
  { name: 'this cluster is no candidate while the job is in line here', mode: 'overflow', order: ['b', 'c', 'd'] },
  { name: 'with `any` this cluster is the first among equals', mode: 'any', order: [SELF, 'b', 'c', 'd'] },
  { name: 'not when jobs wait here already', mode: 'any', waiting: 1, order: ['b', 'c', 'd'] },
  { name: 'nor when there is no room', mode: 'any', free: { [SELF]: 100 }, order: ['b', 'c', 'd'] },
  {
    name: 'nor when what was just decided for it needs that room',
    mode: 'any',
    enteringQueue: 3950,
    order: ['b', 'c', 'd'],
  },
  {
    name: '`self` says where it stands',
    mode: 'any',
    federation: { self: { priority: 1 } },
    order: ['b', 'c', 'd', SELF],
  },
  { name: 'who refused is not asked again', refusals: { b: 'no room' }, order: ['c', 'd'] },
  { name: 'who is not fit is not asked', unfit: { c: 'it is leaving' }, order: ['b', 'd'] },
  { name: 'who has no room is not asked', free: { b: 100 }, order: ['c', 'd'] },
  { name: 'room: a member that just had none is not asked', full: ['b'], order: ['c', 'd'] },
  {
    name: 'room: a member that just had none is asked for a job that has to wait there',
    full: ['c'],
    openedBy: 'c',
    mode: 'any',
    order: ['c'],
  },
  { name: 'who lost it is asked last', last: 'b', order: ['c', 'd', 'b'] },
  { name: 'in a star only where it entered', openedBy: 'c', mode: 'any', order: ['c'] },
  {
    name: 'also when there is no room: it waits there',
    openedBy: 'c',
    mode: 'any',
    free: { c: 0 },
    order: ['c'],
  },
  {
    name: 'in a mesh first where it entered, then here, then by the policy',
    federation: { topology: 'mesh', self: { priority: 9 } },
    openedBy: 'c',
    mode: 'any',
    order: ['c', SELF, 'b', 'd'],
  },
  {
    name: 'in a mesh that delegates always, first where it entered, then by the policy',
    federation: { topology: 'mesh', delegate_when: 'always', self: { priority: 9 } },
    openedBy: 'c',
    mode: 'any',
    order: ['c', 'b', 'd', SELF],
  },
  {
    name: 'in a mesh not where it entered when there is no room',
    federation: { topology: 'mesh' },
    openedBy: 'c',
    mode: 'any',
    free: { c: 0 },
    order: [SELF, 'b', 'd'],
  },
  {
    name: 'one that has just come may be let in here at any moment',
    mode: 'any',
    free: { [SELF]: 8000 },
    held: { for: 100 },
    order: [SELF, 'b', 'c', 'd'],
  },
  {
    name: 'one that this cluster has not let in for a while goes elsewhere, whatever room there is here',
    mode: 'any',
    free: { [SELF]: 8000 },
    held: { for: 5_000 },
    order: ['b', 'c', 'd'],
  },
];

for (const each of cases) {
  test(each.name, () => {
    const { free = {}, full = [], unfit = {}, refusals = {}, openedBy, waiting = 0, enteringQueue = 0, held } = each;
    const service = aService({ federation: { topology: 'star', ...each.federation } });
    const federation = { service, uid: 'u', members: ['b', 'c', 'd'].map((id) => memberOf(id, unfit[id])) };
    const job = sampleJob('1', { ...(openedBy !== undefined && { openedBy }) });
    const progress = { ...sampleProgress('queued'), ...(held && { held: 'waits for its queue' }) };
    const record: JobRecord = { ...job, ...progress, eventBytes: 0, version: '1' as Version };
    const snapshotOf = (id: string) => room(free[id] ?? 4000);
    const { rankings, chosen } = chooseMember(
      {
        record,
        federation,
        mode: each.mode ?? 'overflow',
        refusals: new Map(Object.entries(refusals)),
        last: each.last,
      },
      {
        scoreboard: {
          snapshotFor: snapshotOf,
          inFlightFor: () => ({ cpu: 0, memory: 0, gpu: 0 }),
          watch: () => {},
          addInFlight: () => ({ accepted: () => {}, rejected: () => {}, ended: () => {} }),
          noteNoRoom: () => {},
          noRoomReason: (_, member) => (full.includes(member) ? 'no room' : undefined),
          onChange: () => () => {},
          noteDuration: () => {},
        },
        enteringQueue: { total: { cpu: enteringQueue, memory: 0, gpu: 0 } },
        ownStatus: () => ({ snapshot: snapshotOf(SELF), waiting }),
        self: { clusterId: 'here', store: { endpoint: '', region: '', verify: true } },
        random: () => 0.5,
        clock: { now: () => job.acceptedAt + (held?.for ?? 0), at: () => () => {} },
      },
    );
    const able = rankings.filter(({ refusal }) => refusal === undefined).map(({ candidate }) => candidate.member);
    assert.deepEqual(able, each.order);
    assert.equal(chosen?.id, each.order[0]);
    const [first] = rankings;
    assert.equal(first?.candidate.member, each.order[0]);
  });
}

test('who has the same reason is named once, and long lists are cut', () => {
  const refused = (member: string, refusal: string) => ({
    candidate: {
      member,
      type: 'oscar' as const,
      isSelf: false,
      priority: 0,
      snapshot: undefined,
      inFlight: { cpu: 0, memory: 0, gpu: 0 },
    },
    refusal,
  });
  assert.equal(
    summarizeRefusals([refused('b', 'full'), refused('c', 'away'), refused('d', 'full')]),
    'b, d: full; c: away',
  );
  const many = Array.from({ length: 8 }, (_, index) => refused(`m${index}`, 'full'));
  assert.equal(summarizeRefusals(many), 'm0, m1, m2, m3, m4 and 3 more: full');
  const reasons = Array.from({ length: 7 }, (_, index) => refused(`m${index}`, `reason ${index}`));
  assert.match(summarizeRefusals(reasons), /m4: reason 4; and 2 more reasons$/);
});
