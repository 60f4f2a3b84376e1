import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DeleteBucketCommand, DeleteObjectCommand, S3ServiceException } from '@aws-sdk/client-s3';
import { eventually, Outside, service } from './support/jobs.ts';
import { ADMIN, startTestManager, type TestManager } from './support/manager.ts';
import { DiskFiller, diskTest, MIB, type SmallDisk } from './support/small-disk.ts';

/** A manager whose disk is full loses nothing, lets everything be deleted, and goes on by itself when there is space. */

const FLOOR = { OSCAR_DISK_FLOOR: '10Mi' };
const COPY = 'cat "$INPUT_FILE_PATH" > "$TMP_OUTPUT_DIR/$(basename "$INPUT_FILE_PATH")"';

async function start({ path, stack }: SmallDisk, settings: Record<string, string> = FLOOR): Promise<TestManager> {
  return stack.use(await startTestManager(settings, join(path, 'data')));
}

const ready = (manager: TestManager, status: number) =>
  eventually(async () => {
    const answer = await manager.call('GET', '/ready');
    assert.equal(answer.status, status, answer.text);
    return answer;
  });

async function refusalOf(upload: Promise<unknown>): Promise<S3ServiceException> {
  const error: unknown = await upload.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof S3ServiceException, String(error));
  return error;
}

diskTest(
  'disk floor: below it uploads and new jobs are rejected, and everything goes on when there is space',
  async (disk) => {
    const manager = await start(disk);
    const outside = new Outside(manager.url);
    const token = await outside.create(ADMIN, service('copy', COPY));
    await outside.put(ADMIN, 'copy/in/before', 'before');
    await outside.allEnded('copy', 1);
    await ready(manager, 200);

    const filler = new DiskFiller(disk.path);
    filler.fillBut(5 * MIB);
    const answer = await ready(manager, 503);
    assert.deepEqual(
      (answer.json() as { reasons: { reason: string }[] }).reasons.map(({ reason }) => reason),
      ['DiskFull'],
    );
    assert.ok(!answer.text.includes(disk.path), 'strangers learn no path');
    assert.equal((await manager.call('GET', '/health')).status, 200);
    const refusal = await refusalOf(outside.put(ADMIN, 'copy/in/rejected', 'x'));
    assert.deepEqual([refusal.name, refusal.$metadata.httpStatusCode], ['XMinioStorageFull', 507]);
    assert.match(refusal.message, /almost full \(.* left\): delete/);
    assert.equal(refusal.$response?.headers['retry-after'], '30');
    const job = await manager.call('POST', '/job/copy', { as: token, body: 'x' });
    assert.deepEqual([job.status, job.headers.get('retry-after')], [503, '30'], job.text);
    assert.match(job.text, /^no new jobs are accepted: the disk of this cluster is almost full/);
    const status = (await manager.call('GET', '/system/status', { as: ADMIN })).json() as {
      cluster: { metrics: { cpu: { total_free: number } }; nodes: { conditions: { type: string }[] }[] };
    };
    assert.equal(status.cluster.metrics.cpu.total_free, 0, 'other clusters see nothing free here');
    assert.ok(status.cluster.nodes[0]?.conditions.some(({ type }) => type === 'DiskPressure'));

    filler.remove();
    await ready(manager, 200);
    await outside.put(ADMIN, 'copy/in/after', 'after');
    await outside.allEnded('copy', 2);
    assert.deepEqual(await outside.keys(ADMIN, 'copy'), ['in/after', 'in/before', 'out/after', 'out/before']);
  },
  { size: '128m' },
);

diskTest(
  'full disk: an attempt whose input does not fit waits, and runs when there is space',
  async (disk) => {
    const manager = await start(disk, { OSCAR_LOCAL_CPU: '100m' });
    const outside = new Outside(manager.url);
    const gate = join(disk.path, 'gate');
    writeFileSync(gate, '');
    const token = await outside.create(ADMIN, service('gate', `while [ -e ${gate} ]; do sleep 0.05; done`));
    await outside.create(ADMIN, service('copy', COPY));
    const id = await outside.submit(token, 'gate', 'x');
    await outside.running(ADMIN, 'gate', id);
    const content = 'x'.repeat(6 * MIB);
    await outside.put(ADMIN, 'copy/in/large', content);
    await eventually(async () => assert.equal((await outside.jobs(ADMIN, 'copy')).length, 1));
    const filler = new DiskFiller(disk.path);
    filler.fillBut(2 * MIB);
    rmSync(gate);
    await eventually(async () => {
      const [job] = await outside.jobs(ADMIN, 'copy');
      assert.match(job?.message ?? '', /^waits for disk space: .*ENOSPC/);
    });
    filler.remove();
    assert.equal((await outside.onlyJob('copy')).state, 'succeeded');
    assert.equal(await outside.get(ADMIN, 'copy/out/large'), content);
  },
  { size: '128m' },
);

diskTest('full disk: a script that finds no space is held, and runs again when there is some', async (disk) => {
  const manager = await start(disk);
  const outside = new Outside(manager.url);
  const gate = join(disk.path, 'gate');
  writeFileSync(gate, '');
  const script = `while [ -e ${gate} ]; do sleep 0.05; done; head -c 4194304 /dev/zero >"$TMP_OUTPUT_DIR/made" || exit 3`;
  const token = await outside.create(ADMIN, service('make', script));
  const id = await outside.submit(token, 'make', 'x');
  await outside.running(ADMIN, 'make', id);
  const filler = new DiskFiller(disk.path);
  filler.fillBut(MIB);
  await ready(manager, 503);
  rmSync(gate);
  await eventually(async () => {
    assert.match(
      (await outside.job(ADMIN, 'make', id)).message ?? '',
      /^waits for disk space: the disk .* is almost full/,
    );
  });
  assert.match(await outside.log('make', id), /exit code 3, and the disk is full: it runs again when there is space/);
  filler.remove();
  assert.equal((await outside.ended('make', id)).state, 'succeeded');
  assert.equal((await outside.get(ADMIN, 'make/out/made'))?.length, 4 * MIB);
});

diskTest('full disk: a script that fills the disk itself fails, and does not run again', async (disk) => {
  const manager = await start(disk);
  const outside = new Outside(manager.url);
  const script = 'echo begun; head -c 200000000 /dev/zero >"$TMP_OUTPUT_DIR/made" || exit 3';
  const token = await outside.create(ADMIN, service('fill', script));
  const id = await outside.submit(token, 'fill', 'x');
  const { state, message } = await outside.ended('fill', id);
  assert.deepEqual([state, message], ['failed', 'the script ended with exit code 3']);
  assert.equal((await outside.log('fill', id)).match(/begun/g)?.length, 1);
});

diskTest(
  'full disk: results that do not fit into the store wait, and are stored when there is space',
  async (disk) => {
    const manager = await start(disk, {});
    const outside = new Outside(manager.url);
    const token = await outside.create(ADMIN, service('make', 'head -c 6291456 /dev/zero > "$TMP_OUTPUT_DIR/large"'));
    const filler = new DiskFiller(disk.path);
    filler.fillBut(9 * MIB);
    const id = await outside.submit(token, 'make', 'x');
    await eventually(async () => {
      assert.match(await outside.log('make', id), /the output is not delivered yet: .*the store is full/);
    });
    assert.equal((await outside.job(ADMIN, 'make', id)).state, 'running');
    filler.remove();
    assert.equal((await outside.ended('make', id)).state, 'succeeded');
    assert.equal((await outside.get(ADMIN, 'make/out/large'))?.length, 6 * MIB);
  },
  { size: '128m' },
);

diskTest(
  'full disk: jobs, services, objects and buckets can be deleted, also after a restart',
  async (disk) => {
    let manager = await start(disk);
    const outside = new Outside(() => manager.url);
    for (const name of ['one', 'two']) {
      await outside.create(ADMIN, service(name, COPY));
      await outside.put(ADMIN, `${name}/in/a`, name);
      await outside.allEnded(name, 1);
    }
    await manager.call('POST', '/system/buckets', { as: ADMIN, body: { bucket_name: 'photos' } });
    await outside.put(ADMIN, 'photos/a', 'a');
    const filler = new DiskFiller(disk.path);
    filler.fillBut(0);
    await ready(manager, 503);

    const removed = async (path: string) => {
      filler.fillBut(0);
      const answer = await manager.call('DELETE', path, { as: ADMIN });
      assert.equal(answer.status, 204, `${path}: ${answer.text}`);
    };
    const [job] = await outside.jobs(ADMIN, 'one');
    await removed(`/system/logs/one/${job?.id}`);
    await removed('/system/services/one');

    filler.fillBut(0);
    await manager.stop();
    manager = await start(disk);
    await ready(manager, 503);
    await removed('/system/services/two');
    filler.fillBut(0);
    const s3 = await new Outside(manager.url).s3(ADMIN);
    await s3.send(new DeleteObjectCommand({ Bucket: 'photos', Key: 'a' }));
    await s3.send(new DeleteBucketCommand({ Bucket: 'photos' }));
    const listed = (await manager.call('GET', '/system/services', { as: ADMIN })).json();
    assert.deepEqual(listed, []);

    filler.remove();
    await ready(manager, 200);
    const again = new Outside(manager.url);
    await again.create(ADMIN, service('three', COPY));
    await again.put(ADMIN, 'three/in/a', 'again');
    await again.allEnded('three', 1);
    assert.equal(await again.get(ADMIN, 'three/out/a'), 'again');
  },
  { size: '128m' },
);
