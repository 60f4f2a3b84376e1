import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { ADMIN, call, temporaryDirectory } from '../support/manager.ts';
import { startProcess } from '../support/process.ts';
import { ControlPlane } from './control-plane.ts';
import { managerSettings } from './manager-settings.ts';
import { Proxy } from './proxy.ts';

/** Long faults, against whole managers with their real timeouts. */

const ETCD_PAUSE_MS = 10_000;
const WATCH_CUT_MS = 60_000;
const RECOVERY_MS = 45_000;

async function startPlane(t: TestContext): Promise<ControlPlane> {
  const plane = await ControlPlane.start();
  t.after(() => plane.stop());
  return plane;
}

const body = (name: string, cpu = '1') => ({ name, image: 'ubuntu', script: 'echo', cpu });
const put = (url: string, name: string, cpu: string) =>
  call(url, 'PUT', '/system/services', { as: ADMIN, body: body(name, cpu) });
const post = (url: string, name: string) => call(url, 'POST', '/system/services', { as: ADMIN, body: body(name) });

async function cpus(url: string): Promise<Map<string, string>> {
  const { json } = await call(url, 'GET', '/system/services', { as: ADMIN });
  return new Map((json() as { name: string; cpu: string }[]).map(({ name, cpu }) => [name, cpu]));
}

// Each test has its own control plane and mostly waits.
describe('long outages', { concurrency: 2, timeout: 300_000 }, () => {
  test('etcd is paused for ten seconds: acknowledged writes are there, and the manager continues', {
    timeout: 150_000,
  }, async (t) => {
    const plane = await startPlane(t);
    t.after(() => plane.resumeEtcd());
    const manager = startProcess(t, temporaryDirectory(), managerSettings(await plane.managerKubeconfig()));
    const url = await manager.listening;
    const names = Array.from({ length: 8 }, (_, i) => `svc-${i}`);
    for (const name of names) assert.equal((await post(url, name)).status, 201);

    plane.pauseEtcd();
    const writes = names.map((name) => put(url, name, '2'));
    assert.equal((await call(url, 'GET', '/health')).status, 200);
    assert.equal((await cpus(url)).size, names.length, 'lists must be answered from the cache');
    await pause(ETCD_PAUSE_MS);
    plane.resumeEtcd();
    const statuses = (await Promise.all(writes)).map(({ status }) => status);
    for (const status of statuses) assert.ok(status === 204 || status === 503, String(status));

    await eventually(async () => assert.equal((await put(url, 'svc-0', '3')).status, 204), RECOVERY_MS);
    await eventually(async () => {
      const seen = await cpus(url);
      assert.equal(seen.get('svc-0'), '3');
      for (const [i, status] of statuses.entries()) {
        if (i > 0 && status === 204) assert.equal(seen.get(`svc-${i}`), '2', `svc-${i} was acknowledged`);
      }
    }, RECOVERY_MS);
  });

  test('a manager that is cut off for a minute serves its cache and catches up', {
    timeout: 170_000,
  }, async (t) => {
    const plane = await startPlane(t);
    const proxy = await Proxy.start(plane.port);
    t.after(() => proxy.stop());
    const cut = startProcess(t, temporaryDirectory(), managerSettings(await plane.managerKubeconfig(proxy.port)));
    const well = startProcess(t, temporaryDirectory(), managerSettings(await plane.managerKubeconfig()));
    const [away, there] = await Promise.all([cut.listening, well.listening]);
    assert.equal((await post(there, 'before')).status, 201);
    await eventually(async () => assert.ok((await cpus(away)).has('before')));

    proxy.refuse();
    const minute = pause(WATCH_CUT_MS);
    for (const name of ['during-1', 'during-2']) assert.equal((await post(there, name)).status, 201);
    assert.equal((await put(there, 'before', '2')).status, 204);
    assert.equal((await call(away, 'GET', '/health')).status, 200);
    assert.deepEqual([...(await cpus(away)).keys()], ['before']);
    const refused = await put(away, 'before', '9');
    assert.equal(refused.status, 503);
    assert.match(refused.text, /Kubernetes API cannot be reached/);
    await minute;
    proxy.open();

    await eventually(async () => assert.deepEqual(await cpus(away), await cpus(there)), RECOVERY_MS);
    assert.equal((await cpus(away)).get('before'), '2');
    assert.equal((await put(away, 'during-1', '3')).status, 204);
  });
});
