import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { ADMIN, call, temporaryDirectory } from '../support/manager.ts';
import { startProcess } from '../support/process.ts';
import { runWholeSystemTests, WITH_KUBERNETES } from '../support/whole-system.ts';
import { ControlPlane } from './control-plane.ts';
import { managerSettings } from './manager-settings.ts';
import { wipe } from './wipe.ts';

const plane = await ControlPlane.start();
after(() => plane.stop());

/** Settings of a manager that finds an empty cluster. */
async function freshSettings(): Promise<Record<string, string>> {
  await wipe(plane.admin);
  return managerSettings(await plane.managerKubeconfig());
}

for (const part of WITH_KUBERNETES) {
  test(`the whole-system tests of ${part.file} pass with Kubernetes as the store`, { timeout: 180_000 }, async (t) => {
    const settings = await freshSettings();
    await runWholeSystemTests(t, part, { OSCAR_TEST_SETTINGS: JSON.stringify(settings) });
  });
}

test('replicas: two managers on one API server are one cluster', { timeout: 120_000 }, async (t) => {
  const settings = await freshSettings();
  const managers = [1, 2].map(() => startProcess(t, temporaryDirectory(), settings));
  const [one = '', two = ''] = await Promise.all(managers.map(({ listening }) => listening));
  const body = (name: string, more: Record<string, unknown> = {}) => ({
    name,
    image: 'ubuntu',
    script: 'echo',
    ...more,
  });

  // A name can be created once, through either manager.
  const names = Array.from({ length: 20 }, (_, i) => `race-${i}`);
  const answers = await Promise.all(
    names.flatMap((name) =>
      [one, two].map((url) => call(url, 'POST', '/system/services', { as: ADMIN, body: body(name) })),
    ),
  );
  for (const [i, name] of names.entries()) {
    const statuses = [answers[2 * i]?.status ?? 0, answers[2 * i + 1]?.status ?? 0].toSorted((a, b) => a - b);
    assert.deepEqual(statuses, [201, 409], name);
  }

  // A write through one manager is visible at the other at once.
  for (const name of names) {
    assert.equal(
      (await call(one, 'PUT', '/system/services', { as: ADMIN, body: body(name, { cpu: '1' }) })).status,
      204,
    );
    const read = await call(two, 'GET', `/system/services/${name}`, { as: ADMIN });
    assert.equal(read.status, 200);
  }
  await eventuallyEqual(async () => {
    const { json } = await call(two, 'GET', '/system/services', { as: ADMIN });
    return (json() as { cpu: string }[]).map(({ cpu }) => cpu).join();
  }, names.map(() => '1').join());

  // Nothing is lost when a manager is killed.
  managers[0]?.child.kill('SIGKILL');
  await managers[0]?.ended;
  for (const name of names) {
    assert.equal((await call(two, 'DELETE', `/system/services/${name}`, { as: ADMIN })).status, 204);
  }
  await eventuallyEqual(async () => (await call(two, 'GET', '/system/services', { as: ADMIN })).text, '[]');
  managers[1]?.child.kill('SIGTERM');
  assert.equal(await managers[1]?.ended, 0, managers[1]?.output());
});

/** Lists are cached and may lag behind writes of the other manager. */
async function eventuallyEqual(read: () => Promise<string>, expected: string): Promise<void> {
  const end = Date.now() + 15_000;
  let seen = await read();
  while (seen !== expected && Date.now() < end) seen = await read();
  assert.equal(seen, expected);
}
