import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { BUSYBOX } from '../docker/busybox.ts';
import { bothAt, Minio } from '../minio/minio.ts';
import {
  copying,
  delegating,
  endedWell,
  expectStagingEmpty,
  placeOf,
  startDelegation,
  storyOf,
} from '../support/delegation.ts';
import { type Clusters, expectStatus, member, type TestCluster } from '../support/federation.ts';
import { eventually } from '../support/jobs.ts';
import { lastingPorts as freePorts } from '../support/lasting-port.ts';
import { GATEWAY } from './node/names.ts';
import { PodManagers } from './pod-managers.ts';

/** A federation of an embedded cluster and a Kubernetes cluster that delegate jobs to each other. */

let our: PodManagers;
let minio: Minio;
let them: Clusters;
let embedded: TestCluster;
let kubernetes: TestCluster;

before(async () => {
  our = await PodManagers.start();
  const [port = 0] = await freePorts(1);
  minio = await Minio.start({ host: GATEWAY, hooks: bothAt(`http://${GATEWAY}:${port}/system/events/storage`) });
  them = await startDelegation({
    // Pods must reach the stores of all clusters.
    settings: {
      OSCAR_PEER_NETWORKS: `127.0.0.0/8,${GATEWAY}/32`,
      OSCAR_LISTEN: `${GATEWAY}:0`,
      OSCAR_LOCAL_ALLOW_REMOTE: 'true',
    },
    own: { 'oscar-cluster-a': { ...our.settings(), ...minio.settings, OSCAR_LISTEN: `${GATEWAY}:${port}` } },
    unable: ['oscar-cluster-a', 'oscar-cluster-b', 'oscar-cluster-c'],
  });
  [embedded, kubernetes] = [them.origin, them.a];
});
after(async () => {
  await them?.[Symbol.asyncDispose]();
  await minio?.stop();
  await our?.stop();
});

const small = { image: BUSYBOX, cpu: '0.05', memory: '16Mi' };

/** Waits until the only job of a service runs on another cluster and has printed this, and returns the job. */
function runsElsewhere(at: TestCluster, name: string, printed: string): Promise<{ id: string; log: string }> {
  return eventually(async () => {
    const [job] = await at.outside.jobs(them.people.alice, name);
    assert.equal(job?.message, 'the script runs', job && storyOf(job));
    const answer = await at.call('GET', `/system/logs/${name}/${job.id}`, { as: them.people.alice });
    assert.ok(answer.text.includes(printed), answer.text);
    return { id: job.id, log: answer.text };
  });
}

for (const [way, roles] of Object.entries({
  'from processes to pods': () => ({ origin: embedded, target: kubernetes, name: 'to-pods' }),
  'from pods to processes': () => ({ origin: kubernetes, target: embedded, name: 'to-processes' }),
})) {
  describe(`a job that goes ${way}`, { timeout: 300_000 }, () => {
    test('its results are at the origin, and its log can be read there', async () => {
      const { origin, target, name } = roles();
      const { people } = them;
      await delegating({ origin, people }, name, [member(target, name)], {
        ...small,
        script: `echo "in $OSCAR_SERVICE_NAME"; ${copying('.copy')}`,
      });
      await origin.outside.put(people.alice, `${name}/in/x`, 'some text');
      const id = await eventually(async () => {
        const [job] = await origin.outside.jobs(people.alice, name);
        assert.ok(job);
        return job.id;
      });
      const job = await endedWell(origin, people.alice, name, id);
      assert.deepEqual([placeOf(job), job.attempts.length], [target.id, 1], storyOf(job));
      assert.equal(await origin.outside.get(people.alice, `${name}/out/x.copy`), 'some text');
      const log = await origin.call('GET', `/system/logs/${name}/${id}`, { as: people.alice });
      assert.match(log.text, new RegExp(`^in ${name}$`, 'm'));
      await expectStagingEmpty(origin, name);
    });

    test('it is cancelled at the origin and leaves nothing', async () => {
      const { origin, target, name: base } = roles();
      const { people } = them;
      const name = `${base}-ended`;
      await delegating({ origin, people }, name, [member(target, name)], {
        ...small,
        script: `${copying()}; echo begun; sleep 600`,
      });
      await origin.outside.put(people.alice, `${name}/in/x`, 'x');
      const { id } = await runsElsewhere(origin, name, 'begun');
      expectStatus(await origin.call('DELETE', `/system/jobs/${name}/${id}`, { as: people.alice }), 202);
      const job = await origin.outside.ended(name, id, people.alice);
      assert.deepEqual([job.state, placeOf(job)], ['cancelled', target.id], storyOf(job));
      await eventually(async () => {
        const [taken] = await target.outside.jobs(target.admin, name);
        assert.ok(taken === undefined || taken.phase === 'Failed', taken && storyOf(taken));
      });
      assert.deepEqual(await origin.outside.keys(people.alice, name), ['in/x']);
      await expectStagingEmpty(origin, name);
    });
  });
}

interface Item {
  readonly metadata: { readonly name: string; readonly namespace: string };
  readonly spec: { readonly containers: readonly { readonly name: string; readonly volumeMounts: object[] }[] };
  readonly status: { readonly phase: string };
}

/** Prints everything that a script can find: its variables, those of every process, and every readable file. */
const LOOK = `
  env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline
  for place in /oscar /var/run /run /etc /tmp /home /root "$TMP_INPUT_DIR/.." "$TMP_OUTPUT_DIR/.."; do
    find "$place" -type f -exec cat {} +
  done
  echo; echo looked; sleep 600`;

test('security: a pod with a delegated job has no token and no long-lived key, and its script has no key at all', {
  timeout: 300_000,
}, async () => {
  const { people } = them;
  const name = 'looks';
  const refreshToken = await delegating({ origin: embedded, people }, name, [member(kubernetes, name)], {
    ...small,
    script: `( ${LOOK} ) 2>/dev/null | tr '\\0' '\\n'`,
  });
  await embedded.outside.put(people.alice, `${name}/in/x`, 'an input of Alice');
  const { id, log } = await runsElsewhere(embedded, name, '\nlooked\n');
  assert.match(log, /an input of Alice/, 'the script has not searched its files');

  const { admin } = our.cluster;
  const { items } = (await admin.do('GET', '/api/v1/pods')) as unknown as { items: Item[] };
  const pod = items.find(({ metadata, status }) => metadata.name.startsWith(`${name}-`) && status.phase === 'Running');
  assert.ok(pod);
  const { metadata, spec } = pod;
  const path = `/api/v1/namespaces/${metadata.namespace}/secrets/${metadata.name}`;
  const { data } = (await admin.do('GET', path)) as unknown as { data: Record<string, string> };
  const held = Object.values(data).map((value) => Buffer.from(value, 'base64').toString());
  const jobs = JSON.stringify(await admin.do('GET', '/apis/batch/v1/jobs'));
  const everything = [JSON.stringify(pod), jobs, log, ...held].join('\n');

  const [root, hers] = await Promise.all([
    embedded.outside.provider(embedded.admin),
    embedded.outside.provider(people.alice),
  ]);
  const nobodys = {
    'the refresh token': refreshToken,
    'the member key': keyOfMember(name),
    'the login of Alice': people.alice.slice(7),
    'the key of the store of the origin': root.secret_key,
    'the key of Alice there': hers.secret_key,
    'the key of the store here': minio.settings['MINIO_SECRET_KEY'] ?? assert.fail(),
  };
  for (const [what, secret] of Object.entries(nobodys))
    assert.ok(!everything.includes(secret), `${what} is in the pod`);

  // The keys of the staging containers are for this attempt alone, and exist only in its Secret.
  const stores = Buffer.from(data['stores.json'] ?? '', 'base64').toString();
  const keys = [...stores.matchAll(/"(?:secretKey|sessionToken)":"([^"]+)"/g)];
  assert.ok(keys.length > 0);
  for (const [, key = ''] of keys)
    assert.ok(![JSON.stringify(pod), jobs, log].join().includes(key), 'a key is visible');
  const user = spec.containers.find((each) => each.name === 'oscar-container');
  assert.ok(user);
  assert.doesNotMatch(JSON.stringify(user.volumeMounts), /stage-|orders|kube-api-access/);
  expectStatus(await embedded.call('DELETE', `/system/jobs/${name}/${id}`, { as: people.alice }), 202);
  await embedded.outside.ended(name, id, people.alice);
});

/** The member key that was created with the member. */
function keyOfMember(worker: string): string {
  const made = kubernetes.wire.seen.find(({ method, body }) => method === 'POST' && body.includes(`"${worker}"`));
  const order = Buffer.from(String(made?.headers['x-oscar-federation']), 'base64url').toString();
  return (JSON.parse(order) as { key: string }).key;
}
