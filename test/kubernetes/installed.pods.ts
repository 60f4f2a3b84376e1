import assert from 'node:assert/strict';
import { chownSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { archiveOf, imageDigest, makeImage } from '../../deploy/image/image.ts';
import { managerImage } from '../../deploy/image/manager-image.ts';
import { tar } from '../../deploy/image/tar.ts';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { minioProgram } from '../minio/programs.ts';
import { CHART, documented, type Operator, operator } from './helm.ts';
import { MANAGER_NAMESPACE, removeRights } from './manager-rights.ts';
import { Cluster } from './node/cluster.ts';

const CHECKOUT = fileURLToPath(new URL('../..', import.meta.url));
const IMAGE = 'localhost/oscar-manager:test';
const MINIO = 'localhost/minio:test';
const PORT = 30_301;

/** Allows for a busy machine. */
const READY = '150s';

describe('chart with the built image', () => {
  let cluster: Cluster;
  let our: Operator;
  let directory: string;

  before(async () => {
    directory = mkdtempSync(join(tmpdir(), 'oscar-installed-'));
    cluster = await Cluster.start({ dns: true });
    our = await operator(await cluster.plane.adminKubeconfig(), directory);
    // The control plane has already granted the manager's rights. Here the chart must do it.
    await removeRights(cluster.admin);
    const archive = join(directory, 'images.tar');
    writeFileSync(archive, archiveOf({ [IMAGE]: managerImage(CHECKOUT), [MINIO]: await minioImage() }));
    await cluster.import(archive);
    await our.kubectl(JSON.stringify(volume(join(directory, 'store'))), 'create', '-f', '-');
    const settings = {
      'image.tag': 'test',
      authPass: 'password',
      'minIO.deploy': 'true',
      'minIO.image.repository': 'localhost/minio',
      'minIO.image.tag': 'test',
      'service.type': 'NodePort',
      'service.nodePort': PORT,
      // There is no registry.
      'config.OSCAR_IMAGE_PULL_POLICY': 'IfNotPresent',
    };
    const set = Object.entries(settings).flatMap(([name, value]) => ['--set', `${name}=${value}`]);
    await our.helm('install', 'oscar', CHART, '--namespace', MANAGER_NAMESPACE, ...set);
  });
  after(async () => {
    await cluster.stop();
    rmSync(directory, { recursive: true });
  });

  const ask = async (path: string, init: RequestInit = {}, authorization = `Basic ${btoa('oscar:password')}`) => {
    const headers = { authorization, 'content-type': 'application/json' };
    return await fetch(`http://${cluster.nodeAddress}:${PORT}${path}`, { ...init, headers });
  };
  const kubectl = (...args: string[]) => our.kubectl('', '--namespace', MANAGER_NAMESPACE, ...args);
  const managers = async () => (await kubectl('get', 'pods', '-l', 'app=oscar', '-o', 'name')).trim().split('\n');

  test('two managers and MinIO start, as a non-root user with a read-only file system', async () => {
    try {
      await kubectl('rollout', 'status', 'statefulset/oscar-minio', `--timeout=${READY}`);
      await kubectl('rollout', 'status', 'deployment/oscar', `--timeout=${READY}`);
    } catch (error) {
      const seen = await Promise.all([kubectl('describe', 'pods'), kubectl('logs', '-l', 'app=oscar', '--tail=20')]);
      throw new Error(seen.join('\n'), { cause: error });
    }
    const info = (await (await ask('/system/info')).json()) as { kubernetes_version: string };
    assert.match(info.kubernetes_version, /^v1\./);
    const id = await kubectl('exec', 'deployment/oscar', '--', 'node', '-p', 'process.getuid()');
    assert.equal(id.trim(), '1000');
    const write = 'try { fs.writeFileSync("/app/x", "") } catch (error) { error.code }';
    assert.equal((await kubectl('exec', 'deployment/oscar', '--', 'node', '-p', write)).trim(), 'EROFS');
  });

  test('MinIO has both notification targets, and a service gets its buckets', async () => {
    // The managers start without MinIO and retry.
    const logs = await eventually(async () => {
      const pods = await Promise.all((await managers()).map((pod) => kubectl('logs', pod, '--tail=-1')));
      for (const said of pods) assert.match(said, /object store is up/);
      return pods.join('');
    }, 60_000);
    assert.doesNotMatch(logs, /does not report new objects|OSCAR_EVENTS_TOKEN is not set/);
    const service = {
      name: 'installed',
      image: 'oscar.test/busybox:1',
      script: 'true',
      input: [{ storage_provider: 'minio.default', path: 'installed/in' }],
    };
    const made = await ask('/system/services', { method: 'POST', body: JSON.stringify(service) });
    assert.equal(made.status, 201, await made.text());
    await eventually(async () => {
      const buckets = (await (await ask('/system/buckets')).json()) as { bucket_name: string }[];
      assert.ok(
        buckets.some(({ bucket_name }) => bucket_name === 'installed'),
        JSON.stringify(buckets),
      );
    }, 30_000);
  });

  test('a job runs in a pod with the rights of the chart', async () => {
    const { token } = (await (await ask('/system/services/installed')).json()) as { token: string };
    const taken = await ask('/job/installed', { method: 'POST', body: 'hello' }, `Bearer ${token}`);
    assert.equal(taken.status, 201, await taken.text());
    await eventually(async () => {
      const said = await (await ask('/system/logs/installed')).text();
      assert.match(said, /"status":"Succeeded"/, said);
    }, 90_000);
  });

  test('each manager shows the access log of both', async () => {
    const { token } = (await (await ask('/system/services/installed')).json()) as { token: string };
    const from = async (pod: string, path: string, init: string) => {
      const script = `fetch("http://127.0.0.1:8080${path}", ${init}).then((answer) => answer.text()).then(console.log)`;
      return kubectl('exec', pod, '--', 'node', '-e', script);
    };
    const pods = await managers();
    assert.equal(pods.length, 2);
    const earlier = ((await (await ask('/system/logs')).json()) as { logs: unknown[] }).logs.length;
    for (const pod of pods) {
      await from(
        pod,
        '/job/installed',
        JSON.stringify({ method: 'POST', headers: { authorization: `Bearer ${token}` } }),
      );
    }
    const told = JSON.stringify({ headers: { authorization: `Basic ${btoa('oscar:password')}` } });
    const logs = await Promise.all(pods.map((pod) => from(pod, '/system/logs', told)));
    assert.equal((JSON.parse(logs[0] ?? '') as { logs: unknown[] }).logs.length, earlier + 2);
    assert.equal(logs[0], logs[1]);
  });

  test('the image contains the command line', async () => {
    assert.match(await kubectl('exec', 'deployment/oscar', '--', 'oscar', 'version'), /^oscar \d/);
  });

  test('the documented commands remove everything, even while a job runs', async () => {
    const service = { name: 'sleeper', image: 'oscar.test/busybox:1', script: 'sleep 600' };
    const made = await ask('/system/services', { method: 'POST', body: JSON.stringify(service) });
    assert.equal(made.status, 201, await made.text());
    const { token } = (await (await ask('/system/services/sleeper')).json()) as { token: string };
    assert.equal((await ask('/job/sleeper', { method: 'POST' }, `Bearer ${token}`)).status, 201);
    await eventually(async () => {
      const said = await (await ask('/system/logs/sleeper')).text();
      assert.match(said, /"status":"Running"/, said);
    }, 90_000);
    for (const command of documented('docs/kubernetes.md', 'kubectl delete namespace oscar-svc').split('\n')) {
      await our.shell(command);
      // Kubernetes checks only every 15 seconds whether the pods of a deleted namespace are gone.
      if (command.startsWith('helm')) await kubectl('wait', '--for=delete', 'pods', '--all', '--timeout=60s');
    }
    const left = await our.kubectl('', 'get', 'namespaces,clusterroles,clusterrolebindings', '-o', 'name');
    assert.doesNotMatch(left, /oscar/);
  });
});

test('image: the same checkout gives the same image', () => {
  assert.equal(imageDigest(managerImage(CHECKOUT)), imageDigest(managerImage(CHECKOUT)));
});

/** The image has one static program. */
async function minioImage() {
  const program = { name: 'minio', mode: 0o755, bytes: readFileSync(await minioProgram()) };
  return makeImage([tar([{ name: 'tmp/', mode: 0o1777 }, program])], { Entrypoint: ['/minio'], User: '1000:1000' });
}

/** A directory of this machine, which is also the node. Kubernetes does not change its owner. */
function volume(path: string) {
  mkdirSync(path);
  chownSync(path, 1000, 1000);
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: { name: 'store' },
    spec: { capacity: { storage: '50Gi' }, accessModes: ['ReadWriteOnce'], hostPath: { path, type: 'Directory' } },
  };
}
