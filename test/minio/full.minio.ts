import assert from 'node:assert/strict';
import { join } from 'node:path';
import { S3ServiceException } from '@aws-sdk/client-s3';
import { eventually, Meeting, service } from '../support/jobs.ts';
import { ADMIN } from '../support/manager.ts';
import { DiskFiller, diskTest, MIB } from '../support/small-disk.ts';
import { bothAt } from './minio.ts';
import { Scene } from './scene.ts';

diskTest(
  'full MinIO: uploads are rejected, a job that has run keeps its output until there is space, and nothing is lost',
  async ({ path, stack }) => {
    const scene = stack.use(await Scene.start(bothAt, { data: join(path, 'data') }));
    using meeting = new Meeting();
    const { outside, manager } = scene;
    const script = `${meeting.say('begun', 'yes')}; ${meeting.wait('go')}; head -c ${8 * MIB} /dev/zero >"$TMP_OUTPUT_DIR/large"; ${meeting.say('made', 'yes')}`;
    await outside.create(ADMIN, service('full', script));
    await outside.put(ADMIN, 'full/in/a', 'x');
    await meeting.heard('begun');

    const filler = new DiskFiller(path);
    filler.fillBut(2 * MIB);
    const upload = outside.put(ADMIN, 'full/other/b', Buffer.alloc(4 * MIB));
    await assert.rejects(upload, (error) => error instanceof S3ServiceException && error.name === 'XMinioStorageFull');
    meeting.letGo('go');
    await meeting.heard('made');
    await eventually(async () => {
      const [job] = await outside.jobs(ADMIN, 'full');
      assert.ok(job);
      assert.equal(job.state, 'running', job.message);
      const { text } = await outside.call('GET', `/system/logs/full/${job.id}`, { as: ADMIN });
      assert.match(text, /the output is not delivered yet: .*"large".*the store is full/);
    });
    assert.equal((await manager.call('GET', '/health')).status, 200);

    filler.remove();
    const [job] = await outside.allEnded('full', 1);
    assert.equal(job?.state, 'succeeded', job?.message);
    assert.equal((await outside.get(ADMIN, 'full/out/large'))?.length, 8 * MIB);
    await outside.put(ADMIN, 'full/other/b', 'afterwards');
  },
  { size: '256m' },
);
