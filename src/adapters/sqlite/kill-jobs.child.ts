import { randomBytes } from 'node:crypto';
import { writeSync } from 'node:fs';
import { sampleJob, sampleProgress } from '../../ports/conformance/sample-job.ts';
import { openLocalCluster } from './index.ts';

/**
 * Accepts jobs until it is killed, and prints the id of each accepted job. `kill-jobs.test.ts` starts it with the directory
 * and a prefix for the ids. The event of a job begins with its id, so that the test can check it.
 */

/** Enough that one transaction is always being written to the disk while the next one collects writes. */
const IN_FLIGHT = 16;

const [directory = '', prefix = ''] = process.argv.slice(2);
const { jobs } = openLocalCluster({ directory });
await Promise.all(Array.from({ length: IN_FLIGHT }, (_, writer) => acceptOn(writer)));

async function acceptOn(writer: number): Promise<void> {
  for (let n = 0; ; n++) {
    const job = sampleJob(`${prefix}-${writer}-${n}`, { acceptedAt: n });
    const event = Buffer.from(`${job.id} ${randomBytes(4 * (n % 1_000)).toString('base64')}`);
    const { record } = await jobs.accept(job, sampleProgress(), event);
    // Events may arrive twice. Every third job changes its state, and some of these end.
    await jobs.accept(job, sampleProgress('failed'), new Uint8Array());
    writeSync(1, `${job.id}\n`);
    if (record && n % 3 === 0) await jobs.update(job, record.version, { state: n % 5 === 0 ? 'failed' : 'running' });
  }
}
