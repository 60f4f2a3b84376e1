import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { BUSYBOX } from '../docker/busybox.ts';
import { ADMIN, type CallOptions, call } from '../support/manager.ts';
import { installKnative } from './knative/install.ts';
import { PodManagers, type Replica } from './pod-managers.ts';

/** Pods are slow on a busy machine. */
const PATIENCE = 90_000;

const SETTINGS = { SERVERLESS_BACKEND: 'knative', OSCAR_LEADER_SECONDS: '3' };

const SCRIPT = `#!/bin/sh
hostname
ls -A "$TMP_INPUT_DIR" "$TMP_OUTPUT_DIR" | grep -v : | grep -v '^$' | sed "s/$JOB_UUID/mine/"
cat "$INPUT_FILE_PATH"
case "$(cat "$INPUT_FILE_PATH")" in
  *leave*) echo left >"$TMP_INPUT_DIR/left"; echo left >"$TMP_OUTPUT_DIR/out"; sleep 600 & ;;
  *fail*) exit 3 ;;
  *wait*) echo waits; sleep 600 ;;
  *slowly*) sleep 10 ;;
  *processes*) ps | grep -c 'sleep 60[0]' || true ;;
esac
`;

describe('Knative: calls', { timeout: 600_000 }, () => {
  let our: PodManagers;
  let manager: Replica;
  let token = '';

  before(async () => {
    our = await PodManagers.start({ dns: true });
    await installKnative(our.cluster);
    manager = await our.replica(SETTINGS);
    const body = { ...definition(), script: SCRIPT };
    const { status, text } = await ask('POST', '/system/services', { as: ADMIN, body });
    assert.equal(status, 201, text);
    const { json } = await ask('GET', '/system/services/answers', { as: ADMIN });
    token = `Bearer ${(json() as { token: string }).token}`;
  });
  after(async () => our?.stop());

  /** An overloaded manager rejects requests without having done anything; retry. */
  const ask = (method: string, path: string, options?: CallOptions) =>
    eventually(
      async () => {
        const answer = await call(manager.url, method, path, options);
        assert.notEqual(answer.status, 503, answer.text);
        return answer;
      },
      PATIENCE,
      200,
    );
  const definition = (memory = '32Mi') => ({ name: 'answers', image: BUSYBOX, cpu: '0.05', memory });
  const run = (event: string) => ask('POST', '/run/answers', { as: token, body: event });
  const seen = (path: string) => our.cluster.admin.ask('GET', path);
  const running = async () => {
    const { json } = await ask('GET', '/system/jobs/answers?state=running', { as: ADMIN });
    const [job] = (json() as { jobs: { id: string }[] }).jobs;
    assert.ok(job);
    return job.id;
  };
  const generation = async () =>
    ((await seen(STANDING)).body as { metadata: { generation: number } }).metadata.generation;
  /** Sends a request from inside the cluster. */
  const fromInside = async (url: string, init: RequestInit) => {
    const [enter = '', ...words] = our.cluster.inside();
    const program = `fetch(${JSON.stringify(url)}, ${JSON.stringify(init)}).then(async (answer) =>
      console.log(JSON.stringify({ status: answer.status, text: await answer.text() })))`;
    const { stdout } = await promisify(execFile)(enter, [...words, process.execPath, '-e', program]);
    return JSON.parse(stdout) as { status: number; text: string };
  };
  const STANDING = '/apis/serving.knative.dev/v1/namespaces/oscar-svc/services/answers';

  test('a call is answered, and the next one by the same pod without data of the first', async () => {
    const first = await run('leave something');
    assert.equal(first.status, 200, first.text);
    assert.equal(Buffer.from(first.text, 'base64').toString(), 'left\n');
    const second = await run('tell processes');
    assert.equal(second.status, 200, second.text);
    const [pod, ...lines] = second.text.trim().split('\n');
    assert.match(pod ?? '', /^answers-00001-deployment-/);
    assert.deepEqual(lines, ['event-file-mine', 'tell processes0'], second.text);
  });

  test('the deployment view names Knative', async () => {
    const { json } = await ask('GET', '/system/services/answers/deployment', { as: ADMIN });
    const { state, active_instances, resource_kind } = json() as Record<string, unknown>;
    assert.deepEqual([state, resource_kind], ['ready', 'knative_service']);
    // Knative decides how many instances there are.
    assert.ok(Number(active_instances) >= 1, String(active_instances));
    const info = (await ask('GET', '/system/info', { as: ADMIN })).json() as Record<string, unknown>;
    assert.deepEqual(info['serverless_backend'], { name: 'Knative', version: info['kubernetes_version'] });
  });

  test('a failed script returns its exit code and output, also later', async () => {
    const { status, headers, text } = await run('please fail');
    assert.deepEqual([status, headers.get('x-oscar-exit-code')], [500, '3']);
    assert.match(text, /fail/);
    const id = headers.get('x-oscar-job-id');
    const log = await ask('GET', `/system/logs/answers/${id}`, { as: ADMIN });
    assert.match(log.text, /event-file-mine\nplease fail/);
    assert.match(log.text, /oscar: the script ended with exit code 3/);
  });

  test('a cancelled call ends its script', async () => {
    const calling = run('please wait');
    const id = await eventually(async () => {
      const job = await running();
      const { text } = await ask('GET', `/system/logs/answers/${job}`, { as: ADMIN });
      assert.match(text, /waits/);
      return job;
    }, PATIENCE);
    await ask('DELETE', `/system/jobs/answers/${id}`, { as: ADMIN });
    assert.equal((await calling).status, 502);
    assert.match((await ask('GET', `/system/logs/answers/${id}`, { as: ADMIN })).text, /waits/);
    assert.match((await run('tell processes')).text, /tell processes0/);
  });

  for (const { next, settings } of [
    { next: 'a manager like it', settings: SETTINGS },
    { next: 'one without Knative', settings: { ...SETTINGS, SERVERLESS_BACKEND: '' } },
  ]) {
    test(`a call whose manager dies, and ${next} comes, is lost, its script is ended and not run again`, async () => {
      const script = `${SCRIPT}${our.reportRun}\nsleep 600`;
      const put = await ask('PUT', '/system/services', { as: ADMIN, body: { ...definition(), script } });
      assert.equal(put.status, 204, put.text);
      const lost = { as: token, body: 'to be lost' };
      const calling = call(manager.url, 'POST', '/run/answers', lost).catch(() => undefined);
      const id = await eventually(async () => {
        const job = await running();
        assert.equal(our.countRuns(job), 1);
        return job;
      }, PATIENCE);
      manager.child.kill('SIGKILL');
      await calling;
      manager = await our.replica(settings);
      await eventually(async () => {
        const { json, text } = await ask('GET', `/system/jobs/answers/${id}`, { as: ADMIN });
        const { state, timeline } = json() as { state: string; timeline: { reason: string }[] };
        assert.deepEqual([state, timeline.at(-1)?.reason], ['failed', 'Lost'], text);
      }, PATIENCE);
      manager.child.kill('SIGKILL');
      manager = await our.replica(SETTINGS);
      const body = { ...definition(), script: SCRIPT };
      assert.equal((await ask('PUT', '/system/services', { as: ADMIN, body })).status, 204);
      assert.match((await run('tell processes')).text, /tell processes0/);
      assert.equal(our.countRuns(id), 1);
    });
  }

  test('two concurrent calls use two pods; without calls it scales to zero and back', async () => {
    const answers = await Promise.all([run('answer slowly'), run('answer slowly too')]);
    const pods = answers.map(({ status, text }) => {
      assert.equal(status, 200, text);
      return text.split('\n', 1)[0];
    });
    assert.notEqual(pods[0], pods[1]);
    await eventually(
      async () => {
        const { json } = await ask('GET', '/system/services/answers/deployment', { as: ADMIN });
        const { state, active_instances } = json() as Record<string, unknown>;
        assert.deepEqual([state, active_instances], ['ready', 0]);
      },
      PATIENCE,
      500,
    );
    assert.match((await run('after nothing')).text, /after nothing/);
  });

  test("a definition that Knative rejects is rejected with Knative's message, and nothing is created", async () => {
    const other = await our.replica({ ...SETTINGS, OSCAR_POD_NODE_SELECTOR: 'disk=fast' });
    const body = { ...definition(), name: 'refused', script: SCRIPT };
    const { status, text } = await call(other.url, 'POST', '/system/services', { as: ADMIN, body });
    other.child.kill('SIGKILL');
    assert.equal(status, 400, text);
    assert.match(text, /nodeSelector/);
    assert.equal((await ask('GET', '/system/services/refused', { as: ADMIN })).status, 404);
  });

  test('another manager shows the log of a running call', async () => {
    const other = await our.replica(SETTINGS);
    const calling = run('please wait');
    const id = await eventually(running, PATIENCE);
    await eventually(async () => {
      assert.match((await call(other.url, 'GET', `/system/logs/answers/${id}`, { as: ADMIN })).text, /waits/);
    }, PATIENCE);
    other.child.kill('SIGKILL');
    await ask('DELETE', `/system/jobs/answers/${id}`, { as: ADMIN });
    assert.equal((await calling).status, 502);
  });

  test('a call to the pod without its token is rejected', async () => {
    const { url } = ((await seen(STANDING)).body as { status: { address: { url: string } } }).status.address;
    for (const headers of [{}, { authorization: token }]) {
      const { status, text } = await fromInside(url, { method: 'POST', body: '{}', headers });
      assert.equal(status, 401);
      assert.doesNotMatch(text, /version/);
    }
  });

  test('a changed script is used at once, changed limits by a new pod', async () => {
    const first = await generation();
    const put = (body: object) => ask('PUT', '/system/services', { as: ADMIN, body });
    assert.equal((await put({ ...definition(), script: 'echo other' })).status, 204);
    assert.equal((await run('x')).text, 'other\n');
    assert.equal(await generation(), first);
    assert.equal((await put({ ...definition('48Mi'), script: 'echo more' })).status, 204);
    assert.ok((await generation()) > first);
    await eventually(async () => assert.equal((await run('x')).text, 'more\n'), PATIENCE);
  });

  test('deleting the service removes everything in Knative', async () => {
    assert.equal((await ask('DELETE', '/system/services/answers', { as: ADMIN })).status, 204);
    assert.equal((await seen(STANDING)).status, 404);
    await eventually(async () => {
      const { items } = (await seen('/api/v1/namespaces/oscar-svc/pods')).body as { items: unknown[] };
      assert.deepEqual(items, []);
    }, PATIENCE);
    const { items } = (await seen('/api/v1/namespaces/oscar-svc/secrets?labelSelector=oscar.grycap/call')).body as {
      items: unknown[];
    };
    assert.deepEqual(items, []);
  });
});
