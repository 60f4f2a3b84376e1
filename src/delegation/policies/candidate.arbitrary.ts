import * as fc from 'fast-check';
import type { Free, Snapshot } from '../../model/cluster-snapshot.ts';
import type { Demand } from '../../model/job/index.ts';
import { GiB } from './candidate.fixture.ts';
import { STALE } from './free-capacity.ts';
import type { Candidate } from './policy.ts';

/** Numbers that another manager may report: mostly plausible, sometimes not. */
const strange = fc.constantFrom(0, -1, Number.NaN, Number.POSITIVE_INFINITY, 1e308, 5e-324, Number.MAX_SAFE_INTEGER);
const mostly = (sense: fc.Arbitrary<number>) =>
  fc.oneof({ weight: 12, arbitrary: sense }, { weight: 1, arbitrary: strange });

const room = { cpu: fc.nat(16_000), memory: fc.nat(16).map((count) => count * GiB), gpu: fc.nat(2) };

export const demands: fc.Arbitrary<Demand> = fc.record({
  cpu: fc.nat(8000),
  memory: fc.nat(8).map((count) => count * GiB),
  gpu: fc.constantFrom(0, 0, 0, 1),
});

const free: fc.Arbitrary<Free> = fc.record({
  cpu: mostly(room.cpu),
  memory: mostly(room.memory),
  gpu: mostly(room.gpu),
});

const snapshots: fc.Arbitrary<Snapshot> = fc
  .record(
    {
      nodes: fc.array(free, { maxLength: 4 }),
      // The free CPU is measured by usage, not by requests, so it may differ from the sum of the nodes.
      change: mostly(fc.constantFrom(0, 0, 0, -2000, 2000)),
      nodeCount: mostly(fc.nat(5)),
      age: fc.oneof(fc.nat(STALE), fc.constantFrom(STALE, STALE + 1, 10 * STALE, Number.NaN)),
      roundTrip: mostly(fc.nat(500)),
      meanDuration: mostly(fc.double({ min: 0, max: 1000, noNaN: true })),
      pending: mostly(fc.nat(100)),
    },
    { requiredKeys: ['nodes', 'change', 'nodeCount', 'age'] },
  )
  .map(({ change, ...rest }) => ({ ...rest, freeCpu: rest.nodes.reduce((sum, { cpu }) => sum + cpu, change) }));

/** Up to eight candidates, some of them endpoints, at most one of them the origin. */
export const candidates: fc.Arbitrary<Candidate[]> = fc
  .tuple(
    fc.nat(16),
    fc.array(
      fc.record({
        type: fc.constantFrom<Candidate['type']>('oscar', 'oscar', 'oscar', 'endpoint'),
        priority: fc.oneof(fc.nat(3), fc.constantFrom(100, 101)),
        weight: fc.option(mostly(fc.nat(5)), { nil: undefined }),
        snapshot: fc.option(snapshots, { nil: undefined }),
        inFlight: fc.oneof(fc.constant({ cpu: 0, memory: 0, gpu: 0 }), demands),
        seconds: fc.option(fc.record({ transferSeconds: fc.nat(100), durationSeconds: fc.nat(100) }), {
          nil: undefined,
        }),
      }),
      { maxLength: 8 },
    ),
  )
  .map(([self, list]) =>
    list.map(({ weight, seconds, ...each }, index) => ({
      ...each,
      ...seconds,
      ...(weight !== undefined && { weight }),
      member: each.type === 'oscar' ? `cluster-${index}/demo` : `https://endpoint-${index}.example/run`,
      isSelf: index === self,
    })),
  );
