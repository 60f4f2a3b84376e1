import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { after, describe, test } from 'node:test';
import type { KubernetesRunnerOptions } from '../../src/adapters/kubernetes/runner/index.ts';
import type { KubernetesRunner } from '../../src/adapters/kubernetes/runner/kubernetes-runner.ts';
import { Secret } from '../../src/lib/secret.ts';
import type { Attempt } from '../../src/model/job/index.ts';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import {
  BUCKET,
  endOf,
  log,
  objectAt,
  printed,
  run,
  STORE,
  type StoresUnderTest,
  toBucket,
  until,
  untilPrinted,
} from '../../src/ports/conformance/runner-under-test.ts';
import type { Runner } from '../../src/ports/index.ts';
import { BUSYBOX, BUSYBOX_USER, NO_SHELL } from '../docker/busybox.ts';
import { type IsolatedRunners, PODS_NAMESPACE, startPodTestbed } from './pod-testbed.ts';

const FOREVER = 'while :; do sleep 0.1; done';

const testbed = await startPodTestbed();
after(() => testbed.stop());
const { admin } = testbed.cluster;

interface Pod {
  readonly metadata: { readonly name: string; readonly labels: Record<string, string>; readonly uid: string };
  readonly spec: { readonly nodeName?: string };
}

const podPath = (name = '') => `/api/v1/namespaces/${PODS_NAMESPACE}/pods/${name}`;
const jobPath = (name = '') => `/apis/batch/v1/namespaces/${PODS_NAMESPACE}/jobs/${name}`;

/** How many tests run at the same time: they need time, but little CPU. */
const AT_ONCE = 8;

interface Scene extends IsolatedRunners {
  readonly runner: KubernetesRunner;
  readonly attemptOf: (script: string, more?: Partial<Attempt>) => Attempt;
}

/** A test with its own store and runner, whose attempts are removed afterwards. */
function podTest(
  name: string,
  body: (scene: Scene) => Promise<void>,
  options: Partial<KubernetesRunnerOptions> = {},
): void {
  test(name, async () => {
    const place = await testbed.place();
    const runner = await place.open(options);
    const attemptOf = (script: string, more = {}) => ({ ...plain(script, place.stores), ...more });
    try {
      await body({ ...place, runner, attemptOf });
    } finally {
      await place.close(runner);
    }
  });
}

function plain(script: string, { access }: StoresUnderTest): Attempt {
  return {
    name: `try-${randomUUID()}`,
    image: BUSYBOX,
    script,
    environment: {},
    demand: { cpu: 100, memory: 64 * 2 ** 20, gpu: 0 },
    timeout: 120_000,
    input: { kind: 'none' },
    outputs: [],
    answer: false,
    stores: async () => new Map([[STORE, access]]),
  };
}

/** Creates the record of a job as the job store does. */
async function recordOf(attempt: Attempt): Promise<Attempt> {
  const labels = { oscar_service: 'try', 'oscar.grycap/job-owner': 'alice' };
  await admin.do('POST', jobPath(), {
    metadata: { name: attempt.name, labels: { 'oscar.grycap/record': 'job' } },
    spec: {
      managedBy: 'oscar.grycap.net/manager',
      backoffLimit: 0,
      template: {
        metadata: { labels },
        spec: { restartPolicy: 'Never', containers: [{ name: 'oscar-container', image: 'none' }] },
      },
    },
  });
  const traits = {
    namespace: PODS_NAMESPACE,
    job: { service: 'try', id: attempt.name },
    labels,
    annotations: {},
    imagePullSecrets: [],
    sgx: false,
  };
  return { ...attempt, traits };
}

describe('concurrent attempts', { concurrency: AT_ONCE, timeout: 600_000 }, () => {
  podTest('a job whose record is gone gets no pod: its manager was paused for long', async ({ runner, attemptOf }) => {
    const attempt = await recordOf(attemptOf('echo run'));
    await admin.do('DELETE', `${jobPath(attempt.name)}?propagationPolicy=Background`);
    const { outcome, reason, message } = await run(runner, attempt);
    assert.deepEqual([outcome, reason], ['failed', 'StartFailed']);
    assert.match(message, /its job is gone/);
    assert.equal(await printed(runner, attempt.name), '');
  });

  podTest('the pod of a job is found by its Job, and goes with it', async ({ runner, attemptOf }) => {
    const attempt = await recordOf(attemptOf(`echo begun; ${FOREVER}`));
    await runner.start(attempt);
    await untilPrinted(runner, attempt.name, 'begun');
    const selector = `batch.kubernetes.io/job-name=${attempt.name},oscar.grycap/job-owner=alice`;
    const { items } = (await admin.do('GET', `${podPath()}?labelSelector=${encodeURIComponent(selector)}`)) as {
      items: Pod[];
    };
    assert.deepEqual(
      items.map(({ metadata }) => metadata.name),
      [attempt.name],
    );

    // Before: all that is known of the attempt goes with the Job.
    const ended = endOf(runner, attempt.name);
    await admin.do('DELETE', `${jobPath(attempt.name)}?propagationPolicy=Background`);
    assert.equal((await ended).reason, 'Lost');
    await eventually(async () => {
      assert.equal((await admin.ask('GET', podPath(attempt.name))).status, 404);
      assert.deepEqual(await runner.list(), []);
    }, 30_000);
  });

  podTest(
    'an image that cannot be had fails the attempt, in the words of the kubelet, after some patience',
    async ({ runner, attemptOf }) => {
      const attempt = attemptOf('echo ran', { image: 'oscar.test/no-such-image:1' });
      const ended = await run(runner, attempt);
      assert.deepEqual([ended.outcome, ended.reason, ended.startedAt], ['failed', 'ImageFailed', undefined]);
      assert.match(ended.message, /no-such-image/);
      assert.match(await log(runner, attempt.name), /^oscar: the image cannot be had: .*no-such-image/);
    },
  );

  podTest('an image without a shell cannot be started', async ({ runner, attemptOf }) => {
    const ended = await run(runner, attemptOf('echo ran', { image: NO_SHELL }));
    assert.deepEqual([ended.outcome, ended.reason, ended.startedAt], ['failed', 'StartFailed', undefined]);
    assert.match(ended.message, /\/bin\/sh/);
  });

  podTest('a script sees its own processes and files alone, and nothing of another that runs', async (scene) => {
    const { runner, stores, attemptOf } = scene;
    const access = await stores.shortKeys(600_000);
    const given = async () => new Map([[STORE, access]]);
    const input = { kind: 'bytes', name: 'in', bytes: Buffer.from('an input of Alice') } as const;
    const environment = { KEPT: new Secret('a secret of Alice'), PLAIN: 'a variable of Alice' };
    const victim = attemptOf(`echo begun; ${FOREVER}`, { input, environment, outputs: toBucket(), stores: given });
    await runner.start(victim);
    await untilPrinted(runner, victim.name, 'begun');
    const script = `
      for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline; echo; tr '\\0' '\\n' <$p/environ; done 2>/dev/null
      find / \\( -path /proc -o -path /sys \\) -prune -o -type f -size -64k -print -exec cat {} \\; 2>/dev/null
      echo looked`;
    const spy = attemptOf(script, { environment: { OWN: 'its own' }, outputs: toBucket(), stores: given });
    assert.equal((await run(runner, spy)).outcome, 'succeeded');
    const seen = await printed(runner, spy.name);
    assert.match(seen, /^OWN=its own$/m);
    assert.match(seen, /^looked$/m);
    const { accessKey, secretKey, sessionToken } = access;
    const keys = [accessKey, secretKey, sessionToken].flatMap((key) => key?.reveal() ?? []);
    for (const word of [...keys, 'of Alice', victim.name]) assert.ok(!seen.includes(word), `${word} can be read`);
    assert.doesNotMatch(seen, /kubernetes\.io\/serviceaccount|oscar\.js|stage-(in|out)/);
  });

  podTest(
    'a script of another user than root reads its input and leaves its output',
    async ({ runner, stores, attemptOf }) => {
      const script = 'id -u; umask 077; mkdir "$TMP_OUTPUT_DIR/d"; cat "$INPUT_FILE_PATH" >"$TMP_OUTPUT_DIR/d/x"';
      const input = { kind: 'bytes', name: 'in', bytes: Buffer.from('hello') } as const;
      const attempt = attemptOf(script, { image: BUSYBOX_USER, input, outputs: toBucket() });
      assert.equal((await run(runner, attempt)).outcome, 'succeeded');
      assert.equal(await printed(runner, attempt.name), '1000\n');
      assert.equal(Buffer.from((await stores.get(BUCKET, 'd/x')) ?? '').toString(), 'hello');
    },
  );

  podTest(
    'where images of root are refused, one of them says so at once, and one of another user runs',
    async ({ runner, attemptOf }) => {
      const refused = await run(runner, attemptOf('echo ran'));
      assert.deepEqual([refused.outcome, refused.reason, refused.startedAt], ['failed', 'StartFailed', undefined]);
      assert.match(
        refused.message,
        /^this cluster runs no image as root \(OSCAR_POD_NON_ROOT\): give it a USER by number/,
      );
      const attempt = attemptOf('id -u', { image: BUSYBOX_USER });
      assert.equal((await run(runner, attempt)).outcome, 'succeeded');
      assert.equal(await printed(runner, attempt.name), '1000\n');
    },
    // The rejected attempt must fail at once, not after this wait.
    { nonRoot: true, imagePatienceMs: 600_000 },
  );

  podTest('a script finds no keys, no account and no capabilities that matter', async ({ runner, attemptOf }) => {
    const script = `
    key=manager-; grep -rl "$key""secret" /oscar /proc/self/environ 2>/dev/null && exit 3
    [ ! -e /var/run/secrets/kubernetes.io ] || exit 4
    [ ! -e /oscar/orders ] && [ ! -e /oscar/shared ] || exit 5
    mknod /tmp/x b 8 0 2>/dev/null && exit 6
    grep -q 'NoNewPrivs:.*1' /proc/self/status || exit 7
    grep -q 'Seccomp:.*2' /proc/self/status || exit 8`;
    const ended = await run(runner, attemptOf(script, { outputs: toBucket() }));
    assert.equal(ended.message, 'the script ended with exit code 0');
  });

  podTest(
    'an input that is too large for a Secret comes from the shelf, and leaves it',
    async ({ runner, stores, attemptOf }) => {
      const bytes = randomBytes(2_000_000);
      const input = { kind: 'bytes', name: 'in', bytes } as const;
      const script = 'cat "$INPUT_FILE_PATH" >"$TMP_OUTPUT_DIR/copy"';
      const attempt = attemptOf(script, { input, outputs: toBucket() });
      assert.equal((await run(runner, attempt)).outcome, 'succeeded');
      assert.ok(bytes.equals((await stores.get(BUCKET, 'copy')) ?? Buffer.of()));
      await eventually(() => assert.deepEqual(stores.server.listObjects('blobs', { limit: 10 }).objects, []));
    },
  );

  podTest(
    'keys are renewed while a script runs that takes longer than they work',
    async ({ runner, stores, attemptOf }) => {
      let asked = 0;
      const renewed = async () => {
        asked++;
        return new Map([[STORE, await stores.shortKeys(4_000)]]);
      };
      const script = 'sleep 12; echo x >"$TMP_OUTPUT_DIR/x"';
      const ended = await run(runner, attemptOf(script, { outputs: toBucket(), stores: renewed }));
      assert.equal(ended.outcome, 'succeeded', ended.message);
      assert.ok(asked > 3);
      assert.deepEqual(await stores.uploads(BUCKET), ['x']);
    },
    { keyMs: 4_000 },
  );

  podTest('a pod that no node has room for waits, says why, and can be stopped', async ({ runner, attemptOf }) => {
    const attempt = attemptOf('echo ran', { demand: { cpu: 1_000_000, memory: 1, gpu: 0 } });
    await runner.start(attempt);
    for await (const seen of runner.observe(attempt.name)) {
      assert.equal(seen.phase, 'preparing');
      if (/Insufficient cpu/i.test(seen.phase === 'preparing' ? seen.message : '')) break;
    }
    await runner.stop(attempt.name, 'cancelled');
    const ended = await endOf(runner, attempt.name);
    assert.deepEqual([ended.outcome, ended.startedAt], ['stopped', undefined]);
  });

  podTest('a pod that the API does not take fails the attempt, in its words', async ({ runner, attemptOf }) => {
    const ended = await run(runner, attemptOf('echo ran', { image: '' }));
    assert.deepEqual([ended.outcome, ended.reason], ['failed', 'StartFailed']);
    assert.match(ended.message, /image/);
  });

  podTest('a pod that somebody deletes is lost, and never started again', async ({ runner, stores, attemptOf }) => {
    const attempt = attemptOf(`echo begun; echo x >"$TMP_OUTPUT_DIR/x"; ${FOREVER}`, { outputs: toBucket() });
    await runner.start(attempt);
    await untilPrinted(runner, attempt.name, 'begun');
    await admin.do('DELETE', podPath(attempt.name));
    const ended = await endOf(runner, attempt.name);
    assert.deepEqual([ended.outcome, ended.reason], ['failed', 'Lost']);
    assert.match(ended.message, /its pod was deleted/);
    await runner.start(attempt);
    assert.deepEqual(await endOf(runner, attempt.name), ended);
    assert.deepEqual(await stores.uploads(BUCKET), []);
  });

  podTest('a pod that is evicted says that its node is drained, and delivers nothing', async (scene) => {
    const { runner, stores, attemptOf } = scene;
    const attempt = attemptOf(`echo begun; echo x >"$TMP_OUTPUT_DIR/x"; ${FOREVER}`, { outputs: toBucket() });
    await runner.start(attempt);
    await untilPrinted(runner, attempt.name, 'begun');
    // Evicts the pod like `kubectl drain`.
    await admin.do('POST', `${podPath(attempt.name)}/eviction`, {
      apiVersion: 'policy/v1',
      kind: 'Eviction',
      metadata: { name: attempt.name },
    });
    const ended = await endOf(runner, attempt.name);
    assert.deepEqual([ended.outcome, ended.reason], ['failed', 'Lost']);
    assert.match(ended.message, new RegExp(`moved off ${testbed.cluster.nodeName}, which is being drained`));
    assert.deepEqual(await stores.uploads(BUCKET), []);
  });

  podTest(
    'a script that was seen to run is not started again, even if no trace is left of its pod',
    async ({ runner, open, attemptOf }) => {
      const attempt = attemptOf(`echo begun; ${FOREVER}`);
      const first = await open();
      await first.start(attempt);
      await untilPrinted(first, attempt.name, 'begun');
      const path = `/api/v1/namespaces/${PODS_NAMESPACE}/secrets/${attempt.name}`;
      await eventually(async () => {
        const { metadata } = (await admin.do('GET', path)) as { metadata: { annotations: Record<string, string> } };
        assert.ok(metadata.annotations['oscar.grycap/attempt-began']);
      });
      await first.close();
      await vanish(attempt.name);
      const ended = await run(runner, attempt);
      assert.deepEqual([ended.outcome, ended.reason], ['failed', 'Lost']);
      assert.ok(ended.startedAt !== undefined);
      assert.equal((await admin.ask('GET', podPath(attempt.name))).status, 404);
    },
  );

  /** Deletes a pod by force and removes its finalizers, like an operator whose pod does not terminate. */
  async function vanish(name: string): Promise<void> {
    await admin.do('DELETE', `${podPath(name)}?gracePeriodSeconds=0`);
    await eventually(async () => {
      const { status, body } = await admin.ask('GET', podPath(name));
      if (status === 404) return;
      const metadata = { ...(body['metadata'] as Pod['metadata']), finalizers: [] };
      await admin.ask('PUT', podPath(name), { ...body, metadata });
      throw new Error('it is still there');
    });
  }

  podTest(
    'a pod that comes too late, from a manager that was not awake, never begins',
    async ({ runner, attemptOf }) => {
      const begun = attemptOf('echo ran', { outputs: toBucket() });
      await run(runner, begun);
      const { metadata, spec } = (await admin.do('GET', podPath(begun.name))) as unknown as Pod;
      const attempt = attemptOf('echo ran', { demand: { cpu: 1_000_000, memory: 1, gpu: 0 } });
      await runner.start(attempt);
      await runner.stop(attempt.name, 'cancelled');
      await eventually(async () => assert.equal((await admin.ask('GET', podPath(attempt.name))).status, 404));

      const { nodeName: _, ...rest } = spec;
      const late = JSON.parse(JSON.stringify(rest).replaceAll(begun.name, attempt.name));
      const labels = { ...metadata.labels, 'oscar.grycap/attempt': attempt.name };
      const { name, finalizers } = { name: attempt.name, finalizers: ['oscar.grycap/attempt'] };
      await admin.do('POST', podPath(), { metadata: { name, labels, finalizers }, spec: late });
      await eventually(async () => {
        const { status, body } = await admin.ask('GET', podPath(attempt.name));
        if (status === 404) return;
        const { containerStatuses = [] } = body['status'] as { containerStatuses?: { state: object }[] };
        assert.ok(
          containerStatuses.every(({ state }) => 'waiting' in state),
          'its script began',
        );
        throw new Error('it is still there');
      }, 40_000);
      assert.equal((await endOf(runner, attempt.name)).outcome, 'stopped');
    },
  );

  podTest(
    'a manager that stands down leaves what runs to another, and still reads it',
    async ({ runner, open, attemptOf }) => {
      const first = await open();
      const attempt = attemptOf('echo begun; sleep 3; echo x >"$TMP_OUTPUT_DIR/x"', { outputs: toBucket() });
      await first.start(attempt);
      await untilPrinted(first, attempt.name, 'begun');
      first.standDown();
      await runner.start(attempt);
      const [one, two] = await Promise.all([endOf(first, attempt.name), endOf(runner, attempt.name)]);
      assert.deepEqual([one.outcome, one], ['succeeded', two]);
      assert.equal(await printed(first, attempt.name), 'begun\n');
      await first.close();
    },
  );

  podTest(
    'two managers that start the same attempt run its script once, and tell the same end',
    async ({ runner, stores, open, attemptOf }) => {
      const other = await open();
      const attempt = attemptOf('echo once; echo x >"$TMP_OUTPUT_DIR/x"', { outputs: toBucket() });
      await Promise.all([runner.start(attempt), other.start(attempt)]);
      const [one, two] = await Promise.all([endOf(runner, attempt.name), endOf(other, attempt.name)]);
      assert.deepEqual(one, two);
      assert.deepEqual([await printed(other, attempt.name), await stores.uploads(BUCKET)], ['once\n', ['x']]);
      await other.close();
    },
  );

  podTest(
    'a manager that neither starts nor stops an attempt sees it, and reads and follows its log',
    async ({ runner, open, attemptOf }) => {
      const other = await open();
      const attempt = attemptOf('echo one; sleep 3; echo two');
      await runner.start(attempt);
      let seen = '';
      for await (const bytes of other.logs(attempt.name, { timestamps: false, follow: true }))
        seen += Buffer.from(bytes);
      assert.equal(seen, 'one\ntwo\n');
      assert.deepEqual(await endOf(other, attempt.name), await endOf(runner, attempt.name));
      await other.close();
    },
  );

  podTest('a pod ends, and delivers, while no manager is there', async ({ runner, stores, open, attemptOf }) => {
    const attempt = attemptOf('echo begun; sleep 2; echo x >"$TMP_OUTPUT_DIR/x"; printf last', { outputs: toBucket() });
    const first = await open();
    await first.start(attempt);
    await untilPrinted(first, attempt.name, 'begun');
    await first.close();
    await eventually(async () => assert.deepEqual(await stores.uploads(BUCKET), ['x']), 60_000);
    const ended = await run(runner, attempt);
    assert.deepEqual([ended.outcome, ended.exitCode], ['succeeded', 0]);
    assert.equal(await printed(runner, attempt.name), 'begun\nlast');
    assert.deepEqual(await stores.uploads(BUCKET), ['x']);
  });

  const EAT = `awk 'BEGIN { s = "0123456789abcdef"; for (;;) s = s s }'`;

  for (const { name, script, timeout } of [
    { name: 'a script that is killed for its memory reports it', script: EAT, timeout: 60_000 },
    {
      name: 'so does one whose other processes hung until the timeout',
      script: `${EAT}; ${FOREVER}`,
      timeout: 5_000,
    },
  ]) {
    podTest(name, async ({ runner, attemptOf }) => {
      const demand = { cpu: 100, memory: 48 * 2 ** 20, gpu: 0 };
      const ended = await run(runner, attemptOf(script, { demand, timeout }));
      assert.deepEqual([ended.outcome, ended.reason], ['failed', 'OutOfMemory']);
      assert.match(ended.message, /48 MiB/);
    });
  }

  podTest(
    'one that writes more than it may is ended by its node, and the reason says so',
    async ({ runner, stores, attemptOf }) => {
      const script = `dd if=/dev/zero of="$TMP_OUTPUT_DIR/x" bs=1M count=40; echo written; ${FOREVER}`;
      const ended = await run(runner, attemptOf(script, { outputs: toBucket() }));
      assert.deepEqual([ended.outcome, ended.reason], ['failed', 'DiskFull']);
      assert.deepEqual(await stores.uploads(BUCKET), []);
    },
    { diskBytes: 10 * 2 ** 20 },
  );

  podTest('an answer lies on the shelf until the attempt is forgotten', async ({ runner, stores, attemptOf }) => {
    const attempt = attemptOf('echo x >"$TMP_OUTPUT_DIR/x"', { answer: true });
    await run(runner, attempt);
    assert.equal(stores.server.listObjects('blobs', { limit: 10 }).objects.length, 1);
    await runner.forget(attempt.name);
    assert.deepEqual(stores.server.listObjects('blobs', { limit: 10 }).objects, []);
    assert.equal((await admin.ask('GET', `/api/v1/namespaces/${PODS_NAMESPACE}/secrets/${attempt.name}`)).status, 404);
  });

  podTest('the keys of an attempt go with its end', async ({ runner, attemptOf }) => {
    const attempt = attemptOf('exit 0', { outputs: toBucket(), environment: { A: 'b'.repeat(5_000) } });
    await run(runner, attempt);
    const { data } = (await admin.do('GET', `/api/v1/namespaces/${PODS_NAMESPACE}/secrets/${attempt.name}`)) as {
      data?: object;
    };
    assert.deepEqual(data ?? {}, {});
  });
});

podTest('an API server that is away in the middle of it costs nothing', async ({ runner, stores, attemptOf }) => {
  const attempt = attemptOf('echo one; sleep 4; echo two; echo x >"$TMP_OUTPUT_DIR/x"', { outputs: toBucket() });
  await runner.start(attempt);
  await untilPrinted(runner, attempt.name, 'one');
  const following = followed(runner, attempt.name);
  await testbed.cluster.plane.killApiServer();
  await testbed.cluster.plane.startApiServer();
  const ended = await endOf(runner, attempt.name);
  assert.equal(ended.outcome, 'succeeded', ended.message);
  assert.equal(await following, 'one\ntwo\n');
  assert.deepEqual(await stores.uploads(BUCKET), ['x']);
});

async function followed(runner: Runner, name: string): Promise<string> {
  return Buffer.concat(await Array.fromAsync(runner.logs(name, { timestamps: false, follow: true }))).toString();
}

podTest(
  'a node that dies takes its scripts with it, and the reason says so',
  async ({ runner, stores, attemptOf }) => {
    const input = { kind: 'object', name: 'in', from: objectAt(BUCKET, 'in') } as const;
    await stores.put(BUCKET, 'in', Buffer.from('x'));
    const attempt = attemptOf(`echo begun; ${FOREVER}`, { input });
    await runner.start(attempt);
    await until(runner, attempt.name, 'running');
    await testbed.cluster.killNode();
    const ended = await endOf(runner, attempt.name);
    assert.deepEqual([ended.outcome, ended.reason], ['failed', 'Lost']);
    assert.match(ended.message, new RegExp(testbed.cluster.nodeName));
    await testbed.cluster.startNode();
  },
  { lostMs: 5_000 },
);
