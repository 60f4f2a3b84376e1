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
  { name: 'a job may request the complete quota', cpu: 2000, memory: 2 * GIB, gpu: 1, says: undefined },
  {
    name: 'a job may not request more than the quota',
    cpu: 2001,
    says: /^the quota .*: it needs 2.001 cores where 2 cores are left$/,
  },
  { name: 'used CPU is not available', taken: { cpu: '1500m' }, cpu: 1000, says: /0.5 cores are left/ },
  {
    name: 'used memory is not available',
    taken: { memory: '1Gi' },
    memory: 2 * GIB,
    says: /2 GiB of memory where 1 GiB are left/,
  },
  { name: 'used GPUs are not available', taken: { 'nvidia.com/gpu': '1' }, gpu: 1, says: /1 GPU where 0 are left/ },
  {
    name: 'reserved CPU is not available either',
    taken: { cpu: '1' },
    pledged: 500,
    cpu: 600,
    says: /0.6 cores where 0.5 cores are left/,
  },
  { name: 'usage above a lowered quota counts as zero left', taken: { cpu: '4' }, cpu: 1000, says: /0 cores/ },
  { name: 'a queue in a cohort may borrow', spec: { cohortName: 'all' }, cpu: 9000, says: undefined },
  { name: 'a stopped queue admits nothing', spec: { stopPolicy: 'Hold' }, says: /is stopped$/ },
  { name: 'stopPolicy None admits', spec: { stopPolicy: 'None' }, says: undefined },
];

for (const { name, spec, taken = {}, pledged = 0, cpu = 100, memory = 1, gpu = 0, says } of cases) {
  test(`quota shortage: ${name}`, () => {
    const resources = Object.entries(taken).map(([resource, total]) => ({ name: resource, total }));
    const queue = { spec: { ...SPEC, ...spec }, status: { flavorsReservation: [{ name: 'f', resources }] } };
    const refusal = quotaShortage(queue, { cpu, memory, gpu }, { cpu: pledged, memory: 0, gpu: 0 });
    if (says) assert.match(refusal ?? '', says);
    else assert.equal(refusal, undefined);
  });
}
