import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HandClock } from '../../lib/clock.fixture.ts';
import type { Version } from '../../lib/version.ts';
import type { JobRecord } from '../../model/job/index.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import { sampleJob, sampleProgress } from '../../ports/conformance/sample-job.ts';
import { Committer, type CommitterDeps } from './committer.ts';

test('committer: a failed commit is retried, even if the retry comes due while the failure is being recorded', async () => {
  const clock = new HandClock();
  const record: JobRecord = {
    ...sampleJob('1'),
    ...sampleProgress('committing'),
    eventBytes: 0,
    version: '1' as Version,
  };
  const written = Promise.withResolvers<JobRecord>();
  let saying = false;
  let tries = 0;
  const deps = {
    clock,
    random: () => 0.5,
    self: { clusterId: 'here' },
    store: {
      get: async () => record,
      event: async () => new Uint8Array(),
      update: () => {
        saying = true;
        return written.promise;
      },
    },
    services: {
      get: async () => {
        tries++;
        throw new Error('the store is away');
      },
    },
    report: () => undefined,
    ended: () => undefined,
  } as unknown as CommitterDeps;
  const committing = new Committer(deps);
  committing.begin(record);
  await eventually(() => assert.equal(saying, true));
  clock.pass(120_000);
  written.resolve(record);
  await eventually(() => {
    clock.pass(1_000);
    assert.ok(tries > 1);
  });
  committing.stop();
});
