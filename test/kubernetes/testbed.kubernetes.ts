import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { ControlPlane } from './control-plane.ts';

const HERE = (file: string) => fileURLToPath(new URL(file, import.meta.url));

test('test cluster: two control planes are independent and leave nothing behind', async () => {
  const planes = await Promise.all([ControlPlane.start(), ControlPlane.start()]);
  const [one, two] = planes;
  await one.admin.do('POST', '/api/v1/namespaces', { metadata: { name: 'only-here' } });
  assert.equal((await two.admin.ask('GET', '/api/v1/namespaces/only-here')).status, 404);
  await Promise.all(planes.map((plane) => plane.stop()));
  for (const { directory } of planes) assert.equal(existsSync(directory), false);
});

test('test cluster: the manager has the rights of its account only', async (t) => {
  const plane = await ControlPlane.start();
  t.after(() => plane.stop());
  const review = async (verb: string, resource: string, group = '', namespace = 'anywhere') => {
    const { status } = await plane.admin.do('POST', '/apis/authorization.k8s.io/v1/subjectaccessreviews', {
      spec: { user: 'system:serviceaccount:oscar:oscar-sa', resourceAttributes: { verb, resource, group, namespace } },
    });
    return (status as { allowed: boolean }).allowed;
  };
  assert.equal(await review('create', 'configmaps'), true);
  assert.equal(await review('update', 'leases', 'coordination.k8s.io', 'oscar'), true);
  assert.equal(await review('update', 'leases', 'coordination.k8s.io', 'kube-system'), false);
  assert.equal(await review('delete', 'namespaces'), false);
  assert.equal(await review('create', 'clusterrolebindings', 'rbac.authorization.k8s.io'), false);
});

test('test cluster: everything ends with the test process, even if it is killed', async (t) => {
  const child = spawn(process.execPath, [HERE('control-plane.child.ts')], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(() => child.kill('SIGKILL'));
  const [line] = await once(createInterface({ input: child.stdout }), 'line');
  const { directory, port }: { directory: string; port: number } = JSON.parse(line);
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  assert.deepEqual(runningIn(directory).length, 2, 'etcd and the API server must run');
  child.kill('SIGKILL');
  await eventually(() => assert.deepEqual(runningIn(directory), []));
  assert.ok(port > 0);
});

test('test cluster: without Go and a cache, the error says what is missing', async (t) => {
  const cache = `${process.env['TMPDIR'] ?? '/tmp'}/oscar-no-cache-${process.pid}`;
  t.after(() => rmSync(cache, { recursive: true, force: true }));
  const env = { ...process.env, OSCAR_TEST_CACHE: cache, PATH: '/nonexistent' };
  const build = promisify(execFile)(process.execPath, [HERE('build.ts')], { env });
  await assert.rejects(build, {
    code: 1,
    stderr: /need etcd v3\.\d+\.\d+, and there is no `go` to build it: install Go/,
  });
});

/** Processes whose command line contains the directory. */
function runningIn(directory: string): string[] {
  return readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(directory);
    } catch {
      return false;
    }
  });
}
