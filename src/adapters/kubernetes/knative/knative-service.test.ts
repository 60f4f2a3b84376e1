import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Sample, sampleService } from '../../../ports/conformance/sample-service.ts';
import { buildKnativeService, CALLS, DIGEST, type KnativeSettings, TOKEN_NAME, tokenName } from './knative-service.ts';

const SETTINGS: KnativeSettings = {
  image: 'localhost/oscar-manager:test',
  pullPolicy: 'IfNotPresent',
  scriptPullPolicy: 'Always',
  resources: { requests: { cpu: '10m' } },
  diskBytes: 1000,
  nonRoot: false,
  nodeSelector: {},
  tolerations: [],
  timeoutSeconds: 300,
};

const DEFINITION = { metadata: { name: 'x', namespace: 'oscar-svc', uid: 'uid-of-the-map', resourceVersion: '1' } };

interface Container {
  readonly env?: readonly object[];
  readonly name: string;
  readonly ports?: unknown;
  readonly resources: { readonly limits: Record<string, string>; readonly requests: Record<string, string> };
  readonly securityContext: Record<string, unknown> & { readonly capabilities: Record<string, string[]> };
  readonly volumeMounts: readonly Record<string, unknown>[];
}

interface Template {
  readonly metadata: { readonly labels: Record<string, string>; readonly annotations: Record<string, string> };
  readonly spec: Record<string, unknown> & {
    readonly containers: readonly Container[];
    readonly volumes: readonly object[];
  };
}

function made(sample: Sample = {}, settings: Partial<KnativeSettings> = {}) {
  const service = sampleService('x', sample);
  const { metadata, spec } = buildKnativeService(service, DEFINITION, { ...SETTINGS, ...settings });
  assert.ok(spec);
  const { metadata: words, spec: pod } = spec['template'] as Template;
  const [script, program] = pod.containers;
  assert.ok(script && program);
  return { service, metadata, words, pod, script, program };
}

/** The fields that Knative accepts by default; it rejects a Service with any other field. */
const TAKEN = {
  pod: [
    'containerConcurrency',
    'timeoutSeconds',
    'automountServiceAccountToken',
    'enableServiceLinks',
    'imagePullSecrets',
    'containers',
    'volumes',
  ],
  container: [
    'name',
    'image',
    'imagePullPolicy',
    'command',
    'args',
    'env',
    'ports',
    'resources',
    'securityContext',
    'volumeMounts',
  ],
  security: [
    'allowPrivilegeEscalation',
    'capabilities',
    'readOnlyRootFilesystem',
    'runAsGroup',
    'runAsNonRoot',
    'runAsUser',
    'seccompProfile',
  ],
  mount: ['name', 'mountPath', 'subPath', 'readOnly'],
};

test('Knative service: it contains only fields that Knative accepts', () => {
  const pulled = { definition: { image_pull_secrets: ['mine'] } };
  const { pod } = made(pulled, { nonRoot: true, pullSecrets: ['oscar-pull-1'] });
  assert.deepEqual(pod['imagePullSecrets'], [{ name: 'mine' }, { name: 'oscar-pull-1' }]);
  const only = (what: object, taken: readonly string[]) =>
    assert.deepEqual(
      Object.keys(what).filter((key) => !taken.includes(key)),
      [],
    );
  only(pod, TAKEN.pod);
  for (const container of pod.containers) {
    only(container, TAKEN.container);
    only(container.securityContext, TAKEN.security);
    only(container.securityContext.capabilities, ['drop']);
    for (const mount of container.volumeMounts) only(mount, TAKEN.mount);
  }
  for (const volume of pod.volumes) only(volume, ['name', 'emptyDir', 'secret']);
  assert.equal(pod.containers.filter(({ ports }) => ports).length, 1);
});

test('Knative service: only the helper container sees the token', () => {
  const { script, program, service, metadata } = made();
  const mounts = ({ volumeMounts }: Container) => volumeMounts.map(({ name }) => name);
  assert.ok(!mounts(script).includes('token'));
  assert.ok(mounts(program).includes('token'));
  assert.ok(
    script.volumeMounts.every(({ subPath }) => typeof subPath === 'string'),
    'it has the whole of the shared directory',
  );
  assert.equal(metadata.annotations?.[TOKEN_NAME], tokenName(service));
});

test('Knative service: the helper container gets the trusted certificates', () => {
  const { program, script } = made({}, { authorities: 'a certificate' });
  assert.deepEqual(program.env, [{ name: 'OSCAR_AUTHORITIES', value: 'a certificate' }]);
  assert.equal(script.env, undefined);
});

test('Knative service: it scales as the service says, runs one call per pod, and is reachable inside the cluster only', () => {
  const { metadata, words, pod } = made({ definition: { synchronous: { min_scale: 2, max_scale: 5 } } });
  assert.equal(words.annotations['autoscaling.knative.dev/min-scale'], '2');
  assert.equal(words.annotations['autoscaling.knative.dev/max-scale'], '5');
  assert.deepEqual([pod['containerConcurrency'], pod['timeoutSeconds']], [1, 300]);
  assert.equal(metadata.labels?.['networking.knative.dev/visibility'], 'cluster-local');
  assert.equal(words.labels[CALLS], 'x');
});

for (const { what, min_scale, max_scale, kept } of [
  { what: 'than there may be: all of them', min_scale: 5, max_scale: 2, kept: '2' },
  { what: 'where there is no limit: those', min_scale: 5, max_scale: 0, kept: '5' },
]) {
  test(`Knative service: more pods are kept ready ${what}`, () => {
    const { words } = made({ definition: { synchronous: { min_scale, max_scale } } });
    assert.equal(words.annotations['autoscaling.knative.dev/min-scale'], kept);
    assert.equal(words.annotations['autoscaling.knative.dev/max-scale'], String(max_scale));
  });
}

test('Knative service: annotations of users do not configure Knative', () => {
  const annotations = {
    'serving.knative.dev/creator': 'root',
    'autoscaling.knative.dev/min-scale': '99',
    mine: 'kept',
  };
  const { metadata } = made({
    definition: { annotations, labels: { 'serving.knative.dev/route': 'x', mine: 'kept' } },
  });
  assert.deepEqual(
    Object.keys({ ...metadata.annotations, ...metadata.labels }).filter((key) => key.includes('knative.dev')),
    ['networking.knative.dev/visibility'],
  );
  assert.deepEqual([metadata.annotations?.['mine'], metadata.labels?.['mine']], ['kept', 'kept']);
});

test('Knative service: the script has the resources that the service requests', () => {
  const { script, words } = made({
    definition: { cpu: '0.5', memory: '1Gi', enable_gpu: true, ephemeral_storage_request: '2Gi', vo: '/vo.example.eu' },
  });
  assert.deepEqual(script.resources.limits, { cpu: '500m', memory: String(2 ** 30), 'nvidia.com/gpu': '1' });
  assert.equal(script.resources.requests['ephemeral-storage'], String(2 * 2 ** 30));
  assert.equal(words.labels['vo'], 'vo.example.eu');
});

test('Knative service: SGX is requested, with the Knative features that it needs', () => {
  const { metadata, script } = made({ definition: { enable_sgx: true } });
  assert.equal(metadata.annotations?.['kubernetes.podspec-securitycontext'], 'enabled');
  assert.equal(metadata.annotations?.['kubernetes.containerspec-addcapabilities'], 'enabled');
  assert.deepEqual(script.securityContext.capabilities['add'], ['SYS_RAWIO']);
  assert.equal(script.resources.limits['sgx.intel.com/enclave'], '1');
});

test('Knative service: its digest depends on its pods, not on script or secrets', () => {
  const digest = (sample: Sample = {}, settings: Partial<KnativeSettings> = {}) =>
    made(sample, settings).metadata.annotations?.[DIGEST];
  const same = [
    { definition: { script: 'other' } },
    { definition: { environment: { variables: { A: 'b' }, secrets: {} } } },
  ];
  for (const sample of same) assert.equal(digest(sample), digest());
  const others = [
    { definition: { image: 'other' } },
    { definition: { memory: '1Gi' } },
    { definition: { annotations: { a: 'b' } } },
  ];
  for (const sample of others) assert.notEqual(digest(sample), digest());
  assert.notEqual(digest({}, { image: 'other' }), digest());
});
