import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type SimulationOptions, simulate } from '../../bench/support/federation-simulation.ts';
import { POLICY_NAMES } from '../../src/model/service/index.ts';

/** The real delegator, scoreboard, policies, leases and queues on a simulated clock: no assertion depends on the machine. */

const JOBS = 2_000;
const BURST = { clusters: 20, jobs: JOBS, meanSeconds: 1, mode: 'saturated', seed: 7 } as const;

for (const policy of POLICY_NAMES) {
  test(`simulation: ${policy} keeps the slots of 20 clusters busy and delegates most jobs of a burst`, async () => {
    const { ended, endedTwice, utilisation, delegated } = await simulate({ ...BURST, policy });
    assert.deepEqual({ ended, endedTwice }, { ended: JOBS, endedTwice: 0 });
    assert.ok(utilisation >= 95, `${utilisation} % of the slots were busy`);
    assert.ok(delegated >= JOBS / 2, `${delegated} jobs were delegated`);
  });
}

const SHORT_AND_FAR: SimulationOptions = { ...BURST, policy: 'static', meanSeconds: 0.2, linkMs: 50 };

for (const mode of ['saturated', 'always'] as const) {
  test(`simulation: ${mode} keeps slots busy with jobs that are as short as an offer over a slow link`, async () => {
    const { utilisation } = await simulate({ ...SHORT_AND_FAR, mode });
    assert.ok(utilisation >= 85, `${utilisation} % of the slots were busy`);
  });
}

const ROUGH: SimulationOptions = {
  ...BURST,
  policy: 'fastest',
  origins: 2,
  meanSeconds: 5,
  isMixed: true,
  linkMs: 20,
  loss: 0.02,
  diesEverySeconds: 300,
};

test('simulation: every job ends once although members die with their jobs and messages are lost', async () => {
  const { ended, endedTwice, leasesExpired } = await simulate(ROUGH);
  assert.deepEqual({ ended, endedTwice }, { ended: JOBS, endedTwice: 0 });
  assert.ok(leasesExpired > 0, 'some members died with jobs');
});

test('simulation: the same seed gives the same result', async () => {
  const run = async () => {
    const { decisionMicroseconds: _, ...result } = await simulate({ ...ROUGH, jobs: 400 });
    return result;
  };
  assert.deepEqual(await run(), await run());
});
