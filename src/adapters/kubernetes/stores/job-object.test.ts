import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EPOCH, sampleJob, sampleProgress, storageJob } from '../../../ports/conformance/sample-job.ts';
import { type Sample, sampleService } from '../../../ports/conformance/sample-service.ts';
import type { KubeJob, Stored } from '../client/kinds.ts';
import { jobObjectName } from '../objects/labels.ts';
import { findEvent, readJob, toJob, toTombstone, withJobProgress } from './job-object.ts';
import type { TemplateOptions } from './job-template.ts';

const OPTIONS: TemplateOptions = { managedBy: true };
const UUID = '6f0d3a3c-3d3e-4b7e-9b1e-0a4f5f6c7d8e';

interface Made {
  readonly job?: ReturnType<typeof sampleJob>;
  readonly service?: Sample;
  readonly options?: Partial<TemplateOptions>;
  readonly event?: Uint8Array;
}

function made({ job = sampleJob(UUID), service = {}, options = {}, event = new Uint8Array([0, 255]) }: Made = {}) {
  const given = { bytes: event.byteLength, location: { inline: event } };
  const { service: name } = job;
  const object = toJob(job, sampleProgress(), given, sampleService(name, service), { ...OPTIONS, ...options });
  const stored: Stored<KubeJob> = { ...object, metadata: { ...object.metadata, uid: 'u', resourceVersion: '7' } };
  return stored;
}

test('job object: an id that begins with its service is the name; another id gives a name derived from both', () => {
  const long = 'a-service-with-a-name-of-many';
  for (const [service, id] of [
    ['cow', `cow-${UUID}`],
    [long, `a-service-with-a-${UUID}`],
    ['a-service-with--x', `a-service-with-${UUID}`],
  ] as const) {
    assert.equal(jobObjectName({ service, id }), id);
  }
  const odd = ['same', 'Cow-1', 'cow-🐄', `cow-${'x'.repeat(60)}`, ''];
  const names = odd.flatMap((id) => [jobObjectName({ service: 'cow', id }), jobObjectName({ service: 'dog', id })]);
  assert.equal(new Set(names).size, names.length);
  for (const name of names) assert.match(name, /^oscar-job-[0-9a-f]{40}$/);
});

test('job object: a record and its event survive a round trip', () => {
  const job = storageJob(UUID, { demand: { cpu: 1, memory: 2, gpu: 3 } });
  const object = made({ job });
  const { record, causedAt, namespace, name } = readJob(object);
  assert.ok(record);
  assert.deepEqual({ ...record }, { ...job, ...sampleProgress(), eventBytes: 2, version: record.version });
  assert.deepEqual([causedAt, namespace, name], [EPOCH, 'oscar-svc', job.id]);
  assert.deepEqual(findEvent(object), { inline: new Uint8Array([0, 255]) });
});

test('job object: a change keeps other keys, removes keys set to undefined, and gives a new version', () => {
  const first = withJobProgress(made(), { state: 'running', startedAt: 5 });
  const second = withJobProgress(first, { startedAt: undefined, message: 'again' } as never);
  const [before, after] = [first, second].map((object) => readJob(object).record);
  assert.ok(before && after);
  assert.deepEqual([before.state, before.startedAt], ['running', 5]);
  assert.deepEqual([after.state, after.message, 'startedAt' in after], ['running', 'again', false]);
  assert.notEqual(before.version, after.version);
});

test('job object: a tombstone contains nothing of the job except its identity', () => {
  const job = storageJob(UUID, { invoker: 'mallory' }, EPOCH + 5);
  const tombstone = toTombstone(made({ job, service: { definition: { labels: { secret: 'label' } } } }));
  const { record, service, id, serviceUid, causedAt } = readJob(tombstone);
  assert.equal(record, undefined);
  assert.deepEqual([service, id, serviceUid, causedAt], ['cow', job.id, 'uid-of-cow', EPOCH + 5]);
  assert.doesNotMatch(JSON.stringify(tombstone.metadata), /mallory|secret|event/);
});

test('job object: the tombstone of a queued Job keeps its queue label, as Kueue requires', () => {
  const queued = { kueue: { queueFor: () => 'oscar-lq-cow' } };
  const job = made({ options: queued, service: { definition: { enable_sgx: true } } });
  assert.deepEqual([readJob(job).suspended, readJob(job).queue], [true, 'oscar-lq-cow']);
  assert.equal(readJob(toTombstone(job)).queue, 'oscar-lq-cow');
  // No quota has such devices.
  assert.doesNotMatch(JSON.stringify(job.spec), /sgx/);
  assert.deepEqual([readJob(made()).suspended, readJob(made()).queue], [false, undefined]);
});

test('job object: without managedBy in Kubernetes, a Job is suspended and names its manager in an annotation', () => {
  const { spec, metadata } = made({ options: { managedBy: false, kueue: { queueFor: () => 'oscar-lq-cows' } } });
  assert.equal(spec.managedBy, undefined);
  assert.equal(spec.suspend, true);
  assert.equal(metadata.annotations?.['oscar.grycap/managed-by'], 'oscar.grycap.net/manager');
  // With the label Kueue would resume the Job, and Kubernetes would run it.
  assert.equal(metadata.labels?.['kueue.x-k8s.io/queue-name'], undefined);
});

test('job object: an invalid label, annotation or image does not keep a job from being accepted', () => {
  const labels = { 'odd key!': 'x', fine: 'y', long: 'z'.repeat(70) };
  const object = made({
    job: sampleJob(UUID, { invoker: '🐄' }),
    service: { definition: { labels, annotations: { 'no key!': 'x', note: '🐄' }, image: ' ' } },
  });
  const { labels: kept = {}, annotations = {} } = object.metadata;
  assert.deepEqual([kept['odd key!'], kept['fine'], kept['long']], [undefined, 'y', undefined]);
  assert.equal(kept['oscar.grycap/job-owner'], undefined);
  assert.deepEqual([annotations['no key!'], annotations['note']], [undefined, '🐄']);
  const { containers } = object.spec.template.spec as { containers: { image: string }[] };
  assert.equal(containers[0]?.image, 'none');
});

test('job object: the pod template requests the resources of the job', () => {
  const demand = { cpu: 250.2, memory: 1000.5, gpu: 2 };
  const service = { definition: { ephemeral_storage_request: '1Gi' } };
  const { containers } = made({ job: sampleJob(UUID, { demand }), service }).spec.template.spec as {
    containers: { resources: unknown }[];
  };
  assert.deepEqual(containers[0]?.resources, {
    limits: { cpu: '251m', memory: '1001', 'nvidia.com/gpu': '2' },
    requests: { 'ephemeral-storage': '1073741824' },
  });
});

for (const [name, annotations] of Object.entries({
  'without a record': { 'oscar.grycap/job': undefined },
  'with a truncated record': { 'oscar.grycap/progress': '{"state":' },
  'with a number instead of a record': { 'oscar.grycap/job': '7' },
  'without a version': { 'oscar.grycap/version': undefined },
})) {
  test(`job object: a Job ${name} is damaged, and the message names it`, () => {
    const object = made();
    const spoilt = { ...object.metadata.annotations, ...annotations } as Record<string, string>;
    const odd = { ...object, metadata: { ...object.metadata, annotations: spoilt } };
    assert.throws(() => readJob(odd), { code: 'damaged', message: new RegExp(`the Job cow-${UUID} in namespace`) });
  });
}
