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
import { RemoteAttempts } from './remote-attempts.ts';
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
  /** Free millicores by cluster; 4000 if left out. */
  readonly free?: Record<string, number>;
  /** Members that have just rejected a job because they have no room. */
  readonly full?: readonly string[];
  readonly waiting?: number;
  /** Millicores of jobs that were just assigned to the origin. */
  readonly enteringQueue?: number;
  /** For how many milliseconds the job has been suspended at the origin. */
  readonly held?: { readonly for: number };
  /** The expected order of the candidates. */
  readonly order: readonly string[];
}

const cases: Case[] = [
  { name: 'choose: members are ranked in their order', order: ['b', 'c', 'd'] },
  {
    name: 'choose: the origin is no candidate while the job is in its queue',
    mode: 'overflow',
    order: ['b', 'c', 'd'],
  },
  { name: 'choose: with `any` the origin is first among equals', mode: 'any', order: [SELF, 'b', 'c', 'd'] },
  {
    name: 'choose: the origin is excluded while jobs wait in its queue',
    mode: 'any',
    waiting: 1,
    order: ['b', 'c', 'd'],
  },
  {
    name: 'choose: the origin is excluded without free capacity',
    mode: 'any',
    free: { [SELF]: 100 },
    order: ['b', 'c', 'd'],
  },
  {
    name: 'choose: the origin is excluded if jobs that enter its queue need the capacity',
    mode: 'any',
    enteringQueue: 3950,
    order: ['b', 'c', 'd'],
  },
  {
    name: "choose: `self` sets the origin's priority",
    mode: 'any',
    federation: { self: { priority: 1 } },
    order: ['b', 'c', 'd', SELF],
  },
  { name: 'choose: a member that rejected the job is excluded', refusals: { b: 'no room' }, order: ['c', 'd'] },
  { name: 'choose: an ineligible member is excluded', unfit: { c: 'it is leaving' }, order: ['b', 'd'] },
  { name: 'choose: a member without free capacity is excluded', free: { b: 100 }, order: ['c', 'd'] },
  { name: 'choose: a member that just rejected this demand is excluded', full: ['b'], order: ['c', 'd'] },
  {
    name: 'choose: a member that just rejected this demand is asked for a pinned job',
    full: ['c'],
    openedBy: 'c',
    mode: 'any',
    order: ['c'],
  },
  { name: 'choose: a member that lost the job is last', last: 'b', order: ['c', 'd', 'b'] },
  { name: 'choose: in a star only the member where the job entered', openedBy: 'c', mode: 'any', order: ['c'] },
  {
    name: 'choose: in a star also if that member has no free capacity, because the job waits there',
    openedBy: 'c',
    mode: 'any',
    free: { c: 0 },
    order: ['c'],
  },
  {
    name: 'choose: in a mesh first the member where it entered, then the origin, then by the policy',
    federation: { topology: 'mesh', self: { priority: 9 } },
    openedBy: 'c',
    mode: 'any',
    order: ['c', SELF, 'b', 'd'],
  },
  {
    name: 'choose: in a mesh with `always`, first the member where it entered, then by the policy',
    federation: { topology: 'mesh', delegate_when: 'always', self: { priority: 9 } },
    openedBy: 'c',
    mode: 'any',
    order: ['c', 'b', 'd', SELF],
  },
  {
    name: 'choose: in a mesh not the member where it entered if that has no free capacity',
    federation: { topology: 'mesh' },
    openedBy: 'c',
    mode: 'any',
    free: { c: 0 },
    order: [SELF, 'b', 'd'],
  },
  {
    name: 'choose: the origin is a candidate for a job that was suspended only a moment ago',
    mode: 'any',
    free: { [SELF]: 8000 },
    held: { for: 100 },
    order: [SELF, 'b', 'c', 'd'],
  },
  {
    name: 'choose: a job that stays suspended here is offered to members, even if the origin has free capacity',
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
          durationAt: () => undefined,
          noteRoom: () => {},
          noteTransfer: () => {},
          bandwidthAt: () => undefined,
          noteOffer: () => {},
          offerSecondsAt: () => undefined,
          queueAt: () => 0,
        },
        enteringQueue: { total: { cpu: enteringQueue, memory: 0, gpu: 0 } },
        attempts: new RemoteAttempts(),
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

test('choose: members with the same refusal are listed together, and long lists are cut', () => {
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
