import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Secret } from '../../../lib/secret.ts';
import type { Attempt, PodTraits } from '../../../model/job/index.ts';
import type { KubeJob, Stored } from '../client/kinds.ts';
import { toAttemptSecret } from './attempt-secret.ts';
import type { AttemptPlace } from './place.ts';
import { buildPod, buildWarmPod, type PodSettings } from './pod-spec.ts';
import { ATTEMPT, SETTINGS } from './pods.fixture.ts';

const TRAITS: PodTraits = {
  namespace: 'ns',
  job: { service: 'cows', id: 'cows-1' },
  labels: { oscar_service: 'cows', odd: 'not legal!' },
  annotations: { note: 'any text at all' },
  imagePullSecrets: [],
  sgx: false,
};

function recordOf(managedBy: boolean): Stored<KubeJob> {
  const labels = {
    oscar_service: 'cows',
    'oscar.grycap/job-owner': 'alice',
    'kueue.x-k8s.io/queue-name': 'oscar-lq-cows',
  };
  return {
    metadata: { name: 'cows-1', namespace: 'ns', uid: 'uid-1', resourceVersion: '1' },
    spec: { ...(managedBy && { managedBy: 'us' }), template: { metadata: { labels }, spec: {} } },
  };
}

interface Shown {
  readonly metadata: Record<string, unknown> & { labels: Record<string, string> };
  readonly spec: Record<string, unknown> & {
    initContainers: Container[];
    containers: Container[];
    volumes: {
      name: string;
      secret?: { secretName: string; items: { key: string; mode: number }[] };
      emptyDir?: object;
    }[];
  };
}

interface Container {
  readonly name: string;
  readonly env?: { name: string; value?: string; valueFrom?: object }[];
  readonly volumeMounts: { name: string; mountPath: string; subPath?: string; readOnly?: boolean }[];
  readonly securityContext: { capabilities: { drop: string[]; add?: string[] }; [more: string]: unknown };
  readonly [more: string]: unknown;
}

function shown(
  attempt: Partial<Attempt> = {},
  settings: Partial<PodSettings> = {},
  place: AttemptPlace = { namespace: 'ns' },
) {
  const pod = buildPod({ ...ATTEMPT, ...attempt }, place, { ...SETTINGS, ...settings }) as unknown as Shown;
  const [stageIn, stageOut] = pod.spec.initContainers;
  const [script] = pod.spec.containers;
  assert.ok(stageIn && stageOut && script);
  return { ...pod, stageIn, stageOut, script };
}

test('pod spec: a pod has no service account, no service links, and is not restarted', () => {
  const { spec } = shown();
  assert.deepEqual(
    [spec['automountServiceAccountToken'], spec['enableServiceLinks'], spec['restartPolicy']],
    [false, false, 'Never'],
  );
  assert.equal(spec['terminationGracePeriodSeconds'], 10);
  assert.deepEqual(spec['securityContext'], { fsGroup: 1000, seccompProfile: { type: 'RuntimeDefault' } });
});

test('pod spec: the pod has the name of its attempt, and a finalizer until its outcome is recorded', () => {
  const { metadata } = shown();
  assert.deepEqual([metadata['name'], metadata['namespace']], ['cows-1', 'ns']);
  assert.deepEqual(metadata['finalizers'], ['oscar.grycap/attempt']);
  assert.equal(metadata.labels['oscar.grycap/attempt'], 'cows-1');
});

test('pod spec: labels and annotations are the legal ones of the service and the record, without those of Kueue', () => {
  const { metadata } = shown({ traits: TRAITS }, {}, { namespace: 'ns', record: recordOf(true) });
  assert.deepEqual(metadata.labels, {
    'oscar.grycap/attempt': 'cows-1',
    oscar_service: 'cows',
    'oscar.grycap/job-owner': 'alice',
    'job-name': 'cows-1',
    'controller-uid': 'uid-1',
    'batch.kubernetes.io/job-name': 'cows-1',
    'batch.kubernetes.io/controller-uid': 'uid-1',
  });
  assert.deepEqual(metadata['annotations'], {
    'cluster-autoscaler.kubernetes.io/safe-to-evict': 'false',
    'oscar.grycap/job-key': 'cows/cows-1',
    note: 'any text at all',
  });
  const owner = { apiVersion: 'batch/v1', kind: 'Job', name: 'cows-1', uid: 'uid-1', controller: true };
  assert.deepEqual(metadata['ownerReferences'], [owner]);
});

test('pod spec: neither labels nor owner make a controller of Kubernetes adopt the pod', () => {
  const { metadata } = shown({ traits: TRAITS }, {}, { namespace: 'ns', record: recordOf(false) });
  assert.deepEqual(
    Object.keys(metadata.labels).filter((key) => key.includes('controller-uid')),
    [],
  );
  const owner = { apiVersion: 'batch/v1', kind: 'Job', name: 'cows-1', uid: 'uid-1', controller: false };
  assert.deepEqual(metadata['ownerReferences'], [owner]);
});

test('pod spec: the resources of the service are request and limit of the script', () => {
  const { script } = shown({ demand: { cpu: 199.5, memory: 1e6, gpu: 0 } });
  const room = { cpu: '200m', memory: '1000000' };
  assert.deepEqual(script['resources'], { limits: room, requests: room });
});

test('pod spec: devices and local disk are requested if the service requests them', () => {
  const { script } = shown({
    demand: { cpu: 100, memory: 1, gpu: 1 },
    traits: { ...TRAITS, sgx: true, localDisk: 5_000 },
  });
  const devices = { 'nvidia.com/gpu': '1', 'sgx.intel.com/enclave': '1' };
  assert.deepEqual(script['resources'], {
    limits: { cpu: '100m', memory: '1', ...devices },
    requests: { cpu: '100m', memory: '1', ...devices, 'ephemeral-storage': '5000' },
  });
  assert.ok(script.securityContext.capabilities.add?.includes('SYS_RAWIO'));
  assert.ok(!shown().script.securityContext.capabilities.add?.includes('SYS_RAWIO'));
});

test('pod spec: no container may gain privileges, and our containers have none', () => {
  const { stageIn, stageOut, script } = shown();
  for (const container of [stageIn, stageOut, script]) {
    assert.equal(container.securityContext['allowPrivilegeEscalation'], false);
    assert.deepEqual(container.securityContext.capabilities.drop, ['ALL']);
  }
  for (const { securityContext } of [stageIn, stageOut]) {
    const { runAsNonRoot, runAsUser, readOnlyRootFilesystem, capabilities } = securityContext;
    assert.deepEqual(
      [runAsNonRoot, runAsUser, readOnlyRootFilesystem, capabilities.add],
      [true, 1000, true, undefined],
    );
  }
});

test('pod spec: the script runs as the user of its image, unless root is forbidden', () => {
  const { runAsNonRoot, runAsUser } = shown().script.securityContext;
  assert.deepEqual([runAsNonRoot, runAsUser], [undefined, undefined]);
  assert.equal(shown({}, { nonRoot: true }).script.securityContext['runAsNonRoot'], true);
});

test('pod spec: only our containers see orders and keys, and each only its part of the Secret', () => {
  const { spec, stageIn, stageOut, script } = shown({ input: { kind: 'bytes', name: 'x', bytes: Buffer.from('x') } });
  const keysOf = (volume: string) =>
    spec.volumes.find(({ name }) => name === volume)?.secret?.items.map(({ key }) => key) ?? [];
  const visible = ({ volumeMounts }: Container) => volumeMounts.flatMap(({ name }) => keysOf(name));
  assert.deepEqual(visible(stageIn), ['orders.json', 'stores.json', 'input']);
  assert.deepEqual(visible(stageOut), ['orders.json', 'stores.json']);
  assert.deepEqual(visible(script), ['script.sh']);
  assert.deepEqual(new Set(spec.volumes.flatMap(({ secret }) => secret?.secretName ?? [])), new Set(['cows-1']));
});

test('pod spec: the script mounts its parts of the shared directory, never all of it', () => {
  const { stageIn, stageOut, script } = shown();
  for (const container of [stageIn, stageOut]) {
    const mount = container.volumeMounts.find(({ name }) => name === 'shared');
    assert.deepEqual(mount, { name: 'shared', mountPath: '/oscar/shared' });
  }
  const parts = script.volumeMounts.filter(({ name }) => name === 'shared');
  assert.deepEqual(
    parts.map(({ subPath, readOnly }) => [subPath, readOnly]),
    [
      ['input', false],
      ['output', false],
      ['marks', false],
      ['said', true],
    ],
  );
});

test('pod spec: the shared directory has a size limit', () => {
  assert.deepEqual(shown().spec.volumes[0], { name: 'shared', emptyDir: { sizeLimit: '1000000' } });
});

test('pod spec: the script runs in the shell of its image, whatever its entrypoint is', () => {
  const { script } = shown({ image: ' busybox:1 ' }, { scriptPullPolicy: 'Never' });
  assert.deepEqual([script['image'], script['imagePullPolicy']], ['busybox:1', 'Never']);
  const [shell, option, wrapper] = script['command'] as string[];
  assert.deepEqual([shell, option], ['/bin/sh', '-c']);
  assert.ok(!/(?<!\$)\$(\$\$)*(?!\$)/.test(wrapper ?? '$'), 'Kubernetes would put something in for a dollar sign');
  assert.ok(script.volumeMounts.some(({ mountPath }) => mountPath === '/oscar/config'));
});

test('pod spec: our containers use the image of the manager, and stage-out runs beside the script', () => {
  const { stageIn, stageOut } = shown({}, { pullPolicy: 'Never' });
  for (const [container, name] of [
    [stageIn, 'stage-in'],
    [stageOut, 'stage-out'],
  ] as const) {
    assert.deepEqual(
      [container['image'], container['args'], container['imagePullPolicy'], container.name],
      [SETTINGS.image, [name], 'Never', name],
    );
    assert.equal(container['command'], undefined);
    assert.deepEqual(container['resources'], SETTINGS.resources);
  }
  assert.deepEqual([stageIn['restartPolicy'], stageOut['restartPolicy']], [undefined, 'Always']);
  const probe = { httpGet: { path: '/', port: 26_172 }, periodSeconds: 2, failureThreshold: 1 };
  assert.deepEqual(stageOut['readinessProbe'], probe);
});

test('pod spec: the deadline of the pod is that of its script plus time for staging', () => {
  assert.equal(shown({ timeout: 60_500, patience: 10_000 }).spec['activeDeadlineSeconds'], 71 + 3_600);
  assert.equal(shown({ timeout: Number.MAX_SAFE_INTEGER }).spec['activeDeadlineSeconds'], 2 ** 31 - 1);
});

test('pod spec: the pull secrets of the service are named', () => {
  assert.equal(shown({ traits: TRAITS }).spec['imagePullSecrets'], undefined);
  const { spec } = shown({ traits: { ...TRAITS, imagePullSecrets: ['mine', 'yours'] } });
  assert.deepEqual(spec['imagePullSecrets'], [{ name: 'mine' }, { name: 'yours' }]);
});

test("pod spec: the pull secrets of the manager's image are named once each, also in a warm pod", () => {
  const settings = { pullSecrets: ['oscar-pull-1', 'mine'] };
  const { spec } = shown({ traits: { ...TRAITS, imagePullSecrets: ['mine'] } }, settings);
  assert.deepEqual(spec['imagePullSecrets'], [{ name: 'mine' }, { name: 'oscar-pull-1' }]);
  const warm = buildWarmPod(ATTEMPT, { name: 'w', namespace: 'ns' }, { ...SETTINGS, ...settings });
  assert.deepEqual(warm.spec?.['imagePullSecrets'], [{ name: 'oscar-pull-1' }, { name: 'mine' }]);
});

test('pod spec: our containers get the trusted certificates, also in a warm pod, and the script does not', () => {
  const told = [{ name: 'OSCAR_AUTHORITIES', value: 'a certificate' }];
  const { stageIn, stageOut, script } = shown({}, { authorities: 'a certificate' });
  assert.deepEqual([stageIn.env, stageOut.env], [told, told]);
  assert.ok(!script.env?.some(({ name }) => name === 'OSCAR_AUTHORITIES'));
  const settings = { ...SETTINGS, authorities: 'a certificate' };
  const warm = buildWarmPod(ATTEMPT, { name: 'w', namespace: 'ns' }, settings) as unknown as Shown;
  assert.deepEqual(warm.spec.initContainers[0]?.env, told);
  assert.equal(shown().stageIn.env, undefined);
});

test('pod spec: jobs can have dedicated nodes', () => {
  const toleration = { key: 'jobs', operator: 'Exists', effect: 'NoSchedule' } as const;
  const { spec } = shown({}, { nodeSelector: { for: 'jobs' }, tolerations: [toleration] });
  assert.deepEqual(spec['nodeSelector'], { for: 'jobs' });
  assert.deepEqual((spec['tolerations'] as object[])[0], toleration);
  assert.equal(shown().spec['nodeSelector'], undefined);
});

test('pod spec: a pod tolerates an unreachable node for a short time only', () => {
  const tolerations = shown().spec['tolerations'] as { key: string; tolerationSeconds: number }[];
  assert.deepEqual(
    tolerations.map(({ key, tolerationSeconds }) => [key, tolerationSeconds]),
    [
      ['node.kubernetes.io/not-ready', 120],
      ['node.kubernetes.io/unreachable', 120],
    ],
  );
});

test("pod spec: variables are passed unchanged, secret and large ones by reference, the node's name from Kubernetes", () => {
  const environment = {
    EVENT: '{"a": "$(HOME) $$ $x"}',
    PASSWORD: new Secret('s3cret'),
    LARGE: 'x'.repeat(3_000),
    RESOURCE_ID: 'of the manager',
    'not a name': 'dropped',
  };
  const attempt = { ...ATTEMPT, environment, input: { kind: 'bytes', name: 'f', bytes: Buffer.from('b') } } as const;
  const from = (key: string) => ({ valueFrom: { secretKeyRef: { name: 'cows-1', key } } });
  assert.deepEqual(shown(attempt).script.env, [
    { name: 'EVENT', value: '{"a": "$$(HOME) $$$$ $$x"}' },
    { name: 'PASSWORD', ...from('env.PASSWORD') },
    { name: 'LARGE', ...from('env.LARGE') },
    { name: 'RESOURCE_ID', valueFrom: { fieldRef: { fieldPath: 'spec.nodeName' } } },
    { name: 'TMP_INPUT_DIR', value: '/oscar/input' },
    { name: 'TMP_OUTPUT_DIR', value: '/oscar/output' },
    { name: 'INPUT_FILE_PATH', value: '/oscar/input/f' },
  ]);
  const { data = {} } = toAttemptSecret(attempt, { namespace: 'ns' }, '{}', { networks: [] });
  const value = (key: string) => Buffer.from(data[key] ?? '', 'base64').toString();
  assert.deepEqual([value('env.PASSWORD'), value('env.LARGE')], ['s3cret', environment.LARGE]);
  assert.deepEqual([value('script.sh'), value('input'), value('stores.json')], ['echo hello', 'b', '{}']);
});

test('pod spec: an input that is too large for a Secret is neither in the Secret nor in the pod', () => {
  const attempt = { ...ATTEMPT, input: { kind: 'bytes', name: 'f', bytes: Buffer.alloc(512 * 1024 + 1) } } as const;
  const { data = {} } = toAttemptSecret(attempt, { namespace: 'ns' }, '{}', { networks: [] });
  assert.equal(data['input'], undefined);
  const orders = JSON.parse(Buffer.from(data['orders.json'] ?? '', 'base64').toString());
  assert.deepEqual(orders.input, { kind: 'url', name: 'f' });
  const items = shown(attempt).spec.volumes.flatMap(({ secret }) => secret?.items.map(({ key }) => key) ?? []);
  assert.ok(!items.includes('input'));
});

test('pod spec: the orders say what our programs do, and contain no secret', () => {
  const attempt: Attempt = {
    ...ATTEMPT,
    environment: { PASSWORD: new Secret('s3cret') },
    input: { kind: 'object', name: 'f', from: { store: 's', bucket: 'b', key: 'k' } },
    outputs: [{ store: 's', bucket: 'b', folder: 'out', prefix: [], suffix: ['.txt'] }],
    manifest: { store: 's', bucket: 'b', key: 'm' },
    patience: 5,
    answer: true,
  };
  const { metadata, data = {} } = toAttemptSecret(attempt, { namespace: 'ns' }, '{}', { networks: [], port: 7 });
  const orders = Buffer.from(data['orders.json'] ?? '', 'base64').toString();
  const { input, outputs, manifest, patience, answer } = attempt;
  assert.deepEqual(JSON.parse(orders), {
    attempt: 'cows-1',
    input,
    outputs,
    manifest,
    patience,
    answer,
    networks: [],
    port: 7,
  });
  assert.equal(metadata.labels?.['oscar.grycap/attempt'], 'cows-1');
});

/** The parts of a warm pod that the tests check. */
function waiting(basis: Partial<Attempt> = {}) {
  const { image, demand } = { ...ATTEMPT, ...basis };
  const { job: _, ...traits } = basis.traits ?? TRAITS;
  const pod = buildWarmPod({ image, demand, traits }, { name: 'w-1', namespace: 'ns' }, SETTINGS) as unknown as Shown;
  const [stageWait, ...more] = pod.spec.initContainers;
  const [script] = pod.spec.containers;
  assert.ok(stageWait && script && more.length === 0);
  return { ...pod, stageWait, script };
}

test('pod spec: a warm pod has no attempt, no finalizer and no deadline', () => {
  const { metadata, spec } = waiting();
  assert.deepEqual(metadata.labels, { oscar_service: 'cows', 'oscar.grycap/attempt': '' });
  assert.deepEqual([metadata['finalizers'], metadata['ownerReferences']], [undefined, undefined]);
  assert.deepEqual(metadata['annotations'], {
    'cluster-autoscaler.kubernetes.io/safe-to-evict': 'true',
    note: 'any text at all',
  });
  assert.equal(spec['activeDeadlineSeconds'], undefined);
  assert.deepEqual([spec['automountServiceAccountToken'], spec['restartPolicy']], [false, 'Never']);
});

test('pod spec: the script of a warm pod has the same rights and resources as that of any other pod', () => {
  const { script, spec } = waiting();
  const other = shown({ traits: TRAITS });
  for (const part of ['image', 'imagePullPolicy', 'resources', 'securityContext'])
    assert.deepEqual(script[part], other.script[part], part);
  for (const part of ['securityContext', 'tolerations', 'terminationGracePeriodSeconds'])
    assert.deepEqual(spec[part], other.spec[part], part);
});

test('pod spec: in a warm pod only our container sees the orders, which may arrive later', () => {
  const { stageWait, script, spec } = waiting();
  const { secret } = spec.volumes.find(({ name }) => name === 'stage-out') ?? {};
  assert.deepEqual(secret, { secretName: 'w-1', optional: true, defaultMode: 0o440 });
  assert.ok(stageWait.volumeMounts.some(({ name }) => name === 'stage-out'));
  assert.deepEqual(
    script.volumeMounts.map(({ name, mountPath, readOnly }) => [name, mountPath, readOnly]),
    [
      ['config', '/oscar/config', true],
      ['shared', '/oscar/input', false],
      ['shared', '/oscar/output', false],
      ['shared', '/oscar/marks', false],
      ['shared', '/oscar/said', true],
    ],
  );
  assert.deepEqual(spec.volumes.find(({ name }) => name === 'config')?.emptyDir, {
    medium: 'Memory',
    sizeLimit: '2Mi',
  });
});

test('pod spec: the only variable of a warm pod is the name of its node', () => {
  assert.deepEqual(waiting().script.env, [
    { name: 'RESOURCE_ID', valueFrom: { fieldRef: { fieldPath: 'spec.nodeName' } } },
  ]);
});

test('pod spec: the Secret of an attempt with a warm pod names the pod and has no data', () => {
  const { metadata, data } = toAttemptSecret(ATTEMPT, { namespace: 'ns' }, '{}', { networks: [] }, 'w-1');
  assert.equal(metadata.annotations?.['oscar.grycap/attempt-pod'], 'w-1');
  assert.deepEqual(data, {});
});
