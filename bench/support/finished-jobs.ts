import { openLocalCluster } from '../../src/adapters/sqlite/index.ts';
import { sampleJob, sampleProgress } from '../../src/ports/conformance/sample-job.ts';

/** Written at once, so that they share the trips to the disk. */
const TOGETHER = 500;

/** How long before now the last of them ended: none is old enough to be forgotten. */
const AGO_MS = 60_000;

/** Puts jobs that ended well into a data directory that no manager has: of that service, as a manager leaves them. */
export async function fillWithJobs(count: number, directory: string, service: string): Promise<void> {
  const cluster = openLocalCluster({ directory });
  try {
    const found = await cluster.services.get(service);
    if (!found) throw new Error(`there is no service ${service} in ${directory}`);
    const { uid: serviceUid, owner } = found.service;
    const event = Buffer.from('{}');
    const begun = Date.now() - AGO_MS - count;
    let next = 0;
    const worker = async () => {
      while (next < count) {
        const acceptedAt = begun + next++;
        const known = { service, serviceUid, owner, principal: owner, invoker: '', byToken: true, acceptedAt };
        const job = sampleJob(crypto.randomUUID(), known);
        await cluster.jobs.accept(job, endedWell(job.id, acceptedAt), event);
      }
    };
    await Promise.all(Array.from({ length: TOGETHER }, worker));
  } finally {
    await cluster.close();
  }
}

function endedWell(name: string, acceptedAt: number) {
  const place = 'oscar-cluster';
  const [startedAt, finishedAt] = [acceptedAt + 10, acceptedAt + 20];
  const course = { startedAt, finishedAt, exitCode: 0 };
  return sampleProgress('succeeded', {
    message: 'the script ended with exit code 0',
    epoch: 1,
    ...course,
    attempts: [{ name, epoch: 1, place, ...course }],
    timeline: [
      { state: 'accepted', at: acceptedAt, reason: 'Accepted', message: 'the job was accepted', place },
      { state: 'queued', at: acceptedAt, reason: 'Waiting', message: 'waits for room', place },
      { state: 'running', at: acceptedAt + 5, reason: 'Started', message: 'there is room', place },
      { state: 'succeeded', at: finishedAt, reason: 'Completed', message: 'the script ended with exit code 0', place },
    ],
  });
}
