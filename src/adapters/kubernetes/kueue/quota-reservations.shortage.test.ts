import assert from 'node:assert/strict';
import { test } from 'node:test';
import { buildClusterQueue, type ClusterQueue } from './objects.ts';
import { quotaShortage } from './workload-reasons.ts';

const SETTINGS = { flavor: 'f', millicores: 2000, memoryBytes: 2 ** 31, gpus: 1, ephemeralBytes: 2 ** 30 };
const { spec: SPEC } = buildClusterQueue('oscar-cq-alice', 'alice', SETTINGS);
const GIB = 2 ** 30;

interface Case {
  readonly name: string;
  readonly spec?: Partial<ClusterQueue['spec']>;
  readonly taken?: Record<string, string>;
  /** Millicores. */
  readonly pledged?: number;
  readonly cpu?: number;
  readonly memory?: number;
  readonly gpu?: number;
  readonly says: RegExp | undefined;
}

const cases: Case[] = [
  { name: 'all of a quota may be asked for', cpu: 2000, memory: 2 * GIB, gpu: 1, says: undefined },
  {
    name: 'more than there is may not',
    cpu: 2001,
    says: /^the quota .*: it needs 2.001 cores where 2 cores are left$/,
  },
  { name: 'what others have taken is not there', taken: { cpu: '1500m' }, cpu: 1000, says: /0.5 cores are left/ },
  { name: 'nor memory', taken: { memory: '1Gi' }, memory: 2 * GIB, says: /2 GiB of memory where 1 GiB are left/ },
  { name: 'nor devices', taken: { 'nvidia.com/gpu': '1' }, gpu: 1, says: /1 GPU where 0 are left/ },
  {
    name: 'nor what is pledged, beside it',
    taken: { cpu: '1' },
    pledged: 500,
    cpu: 600,
    says: /0.6 cores where 0.5 cores are left/,
  },
  { name: 'what was taken before a quota was lowered is no debt', taken: { cpu: '4' }, cpu: 1000, says: /0 cores/ },
  { name: 'who may borrow may have more', spec: { cohortName: 'all' }, cpu: 9000, says: undefined },
  { name: 'a queue that is stopped lets nobody in', spec: { stopPolicy: 'Hold' }, says: /is stopped$/ },
  { name: 'one that is not stopped says so', spec: { stopPolicy: 'None' }, says: undefined },
];

for (const { name, spec, taken = {}, pledged = 0, cpu = 100, memory = 1, gpu = 0, says } of cases) {
  test(name, () => {
    const resources = Object.entries(taken).map(([resource, total]) => ({ name: resource, total }));
    const queue = { spec: { ...SPEC, ...spec }, status: { flavorsReservation: [{ name: 'f', resources }] } };
    const refusal = quotaShortage(queue, { cpu, memory, gpu }, { cpu: pledged, memory: 0, gpu: 0 });
    if (says) assert.match(refusal ?? '', says);
    else assert.equal(refusal, undefined);
  });
}
