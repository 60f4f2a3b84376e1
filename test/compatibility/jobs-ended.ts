import assert from 'node:assert/strict';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { ADMIN, type TestManager } from '../support/manager.ts';

/** Milliseconds. Scripts are real processes, and the machine may be busy. */
const DEADLINE = 60_000;

interface Job {
  readonly id: string;
  readonly phase: string;
  readonly message: string;
}

/** Waits until the jobs of a service have ended: in the recording, all had succeeded when they were read. */
export async function jobsEnded(service: string, manager: TestManager): Promise<void> {
  const ended = await eventually(async () => {
    const jobs = await jobsOf(service, manager);
    assert.ok(jobs.length > 0, `${service} was not run`);
    for (const { id, phase } of jobs) assert.ok(phase === 'Succeeded' || phase === 'Failed', `${id} is ${phase}`);
    return jobs;
  }, DEADLINE);
  for (const { id, phase, message } of ended) assert.equal(phase, 'Succeeded', `${id}: ${message}`);
}

async function jobsOf(service: string, manager: TestManager): Promise<Job[]> {
  const { json } = await manager.call('GET', `/system/jobs/${service}`, { as: ADMIN });
  const { jobs } = json() as { jobs: Job[] };
  return jobs;
}
