import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lastingPorts as freePorts } from '../support/lasting-port.ts';
import { runWholeSystemTests, WITH_MINIO } from '../support/whole-system.ts';
import { bothAt, Minio } from './minio.ts';

for (const part of WITH_MINIO) {
  test(`the whole-system tests of ${part.file} pass with MinIO as the store`, { timeout: 180_000 }, async (t) => {
    const [port = 0] = await freePorts(1);
    const minio = await Minio.start({ hooks: bothAt(`http://127.0.0.1:${port}/system/events/storage`) });
    t.after(() => minio.stop());
    const { pid } = minio;
    const settings = { ...minio.settings, OSCAR_LISTEN: `127.0.0.1:${port}` };
    await runWholeSystemTests(t, part, { OSCAR_TEST_SETTINGS: JSON.stringify(settings) });
    assert.deepEqual([minio.isRunning, minio.pid], [true, pid], 'MinIO was never restarted');
  });
}
