import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Free, Snapshot } from '../../model/cluster-snapshot.ts';
import { clusterWith, GiB, memberOn, NOTHING } from './candidate.fixture.ts';
import { explainNoRoom } from './free-capacity.ts';

const node = (cpu: number, memory: number, gpu = 0): Free => ({ cpu: cpu * 1000, memory: memory * GiB, gpu });

function withNodes(...nodes: Free[]): Snapshot {
  return clusterWith([], { nodes, freeCpu: nodes.reduce((sum, { cpu }) => sum + cpu, 0), nodeCount: nodes.length });
}

const cases: {
  name: string;
  snapshot: Snapshot | undefined;
  inFlight?: Free;
  needs: Free;
  refusal: string | undefined;
}[] = [
  {
    name: 'room: exactly enough is enough',
    snapshot: withNodes(node(2, 4, 1)),
    needs: node(2, 4, 1),
    refusal: undefined,
  },
  {
    name: 'room: a member whose largest node is too small is excluded, however much is free in total',
    snapshot: withNodes(node(2, 8), node(1.5, 8), node(2, 8)),
    needs: node(4, 1),
    refusal: 'it needs 4 cores and no node has more than 2 free',
  },
  {
    name: 'room: memory counts',
    snapshot: withNodes(node(8, 1)),
    needs: node(1, 1.001),
    refusal: 'it needs 1.01 GiB of memory and no node has more than 1 GiB free',
  },
  {
    name: 'room: GPUs count',
    snapshot: withNodes(node(8, 8)),
    needs: node(1, 1, 1),
    refusal: 'it needs 1 GPU and no node has more than 0 free',
  },
  {
    name: 'room: all reasons are listed',
    snapshot: withNodes(node(1, 1)),
    needs: node(2, 2),
    refusal:
      'it needs 2 cores and no node has more than 1 free; it needs 2 GiB of memory and no node has more than 1 GiB free',
  },
  {
    name: 'room: one node must have everything',
    snapshot: withNodes(node(8, 1), node(1, 8)),
    needs: node(2, 2),
    refusal: 'no node has 2 cores and 2 GiB of memory free at once',
  },
  {
    name: 'room: jobs sent since the snapshot count as used',
    snapshot: withNodes(node(4, 8)),
    inFlight: node(3, 1),
    needs: node(2, 1),
    refusal: 'it needs 2 cores and no node has more than 1 free, counting what was just sent there',
  },
  {
    name: 'room: capacity freed since the snapshot counts as free on every node',
    snapshot: withNodes(node(0, 8), node(1, 8)),
    inFlight: node(-1, 0),
    needs: node(2, 1),
    refusal: undefined,
  },
  {
    name: 'room: a node that was full has no more than the freed capacity',
    snapshot: withNodes(node(0, 8)),
    inFlight: node(-1, 0),
    needs: node(2, 1),
    refusal: 'it needs 2 cores and no node has more than 1 free',
  },
  {
    name: 'room: memory of jobs sent since the snapshot counts as used',
    snapshot: withNodes(node(4, 8)),
    inFlight: node(0, 7),
    needs: node(1, 2),
    refusal: 'it needs 2 GiB of memory and no node has more than 1 GiB free, counting what was just sent there',
  },
  {
    name: 'room: GPUs of jobs sent since the snapshot count as used',
    snapshot: withNodes(node(4, 8, 1), node(4, 8, 1)),
    inFlight: node(0, 0, 2),
    needs: node(1, 1, 1),
    refusal: 'it needs 1 GPU and no node has more than 0 free, counting what was just sent there',
  },
  {
    name: 'room: a job that was just sent may be on another node',
    snapshot: withNodes(node(4, 8), node(4, 8)),
    inFlight: node(4, 1),
    needs: node(4, 1),
    refusal: undefined,
  },
  {
    name: 'room: a job that needs nothing of an overcommitted resource fits',
    snapshot: withNodes(node(4, 8)),
    inFlight: node(5, 9, 1),
    needs: NOTHING,
    refusal: undefined,
  },
  {
    name: 'room: a node with negative free capacity does not reduce that of the others',
    snapshot: withNodes({ cpu: 0, memory: -8 * GiB, gpu: 0 }, node(4, 8)),
    needs: node(4, 8),
    refusal: undefined,
  },
  {
    name: 'room: a cluster without nodes has no room even for a job that needs nothing',
    snapshot: withNodes(),
    needs: NOTHING,
    refusal: 'it has no node that takes work now',
  },
  {
    name: 'room: a candidate without a snapshot is not excluded',
    snapshot: undefined,
    needs: node(400, 1),
    refusal: undefined,
  },
];

for (const { name, snapshot, inFlight = NOTHING, needs, refusal } of cases) {
  test(name, () => assert.equal(explainNoRoom(needs, memberOn('a', { snapshot, inFlight })), refusal));
}
