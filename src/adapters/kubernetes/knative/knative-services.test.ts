import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { sampleService } from '../../../ports/conformance/sample-service.ts';
import { FakeApiServer } from './fake-api-server.fixture.ts';
import { KnativeServices } from './knative-services.ts';

const SETTINGS = {
  image: 'localhost/oscar-manager:test',
  pullPolicy: 'IfNotPresent',
  scriptPullPolicy: 'Always',
  resources: { requests: { cpu: '10m' } },
  diskBytes: 1000,
  nonRoot: false,
  timeoutSeconds: 300,
} as const;

const DEFINITION = { metadata: { name: 'x', namespace: 'oscar-svc', uid: 'uid-of-the-map', resourceVersion: '1' } };
const SERVICE = sampleService('x', { namespace: 'oscar-svc' });
const LARGER = { ...SERVICE, definition: { ...SERVICE.definition, memory: '2Gi' } };

const WEBHOOK = 'admission webhook "validation.webhook.serving.knative.dev" denied the request: must not set it';
const REFUSED = { code: 'refused', message: `Knative does not take it: ${WEBHOOK}` };

async function opened(t: TestContext) {
  const server = await FakeApiServer.start();
  t.after(() => server.stop());
  const refuse = (status: number, message: string) => {
    server.fault = (_, path) => (path.includes('serving.knative.dev') ? { status, message } : undefined);
  };
  return { server, refuse, services: new KnativeServices(server.api(), SETTINGS) };
}

for (const status of [400, 422]) {
  test(`Knative services: a rejection with ${status} is reported in Knative's words, and not retried for ever`, async (t) => {
    const { refuse, services } = await opened(t);
    refuse(status, WEBHOOK);
    await assert.rejects(services.ensure(SERVICE, DEFINITION), REFUSED);
  });
}

test('Knative services: a missing permission of the manager is not a rejection of the service', async (t) => {
  const { refuse, services } = await opened(t);
  refuse(403, 'services.serving.knative.dev is forbidden: User "x" cannot create resource "services"');
  await assert.rejects(services.ensure(SERVICE, DEFINITION), { code: 'unavailable' });
});

test('Knative services: a change is tried as a dry run first, which changes nothing', async (t) => {
  const { server, refuse, services } = await opened(t);
  await services.ensure(SERVICE, DEFINITION);
  const [before] = server.all('services');
  await services.checkUpdate(LARGER, SERVICE, DEFINITION);
  assert.deepEqual(server.all('services'), [before]);
  refuse(400, WEBHOOK);
  await assert.rejects(services.checkUpdate(LARGER, SERVICE, DEFINITION), REFUSED);
});

test('Knative services: a change that does not concern Knative succeeds, whatever a dry run says about the rest', async (t) => {
  const { refuse, services } = await opened(t);
  refuse(400, WEBHOOK);
  const scripted = { ...SERVICE, definition: { ...SERVICE.definition, script: 'echo other' } };
  await services.checkUpdate(scripted, SERVICE, DEFINITION);
});

test('Knative services: an unreachable API is not asked', async (t) => {
  const { server, services } = await opened(t);
  server.fault = () => 'away';
  await services.checkUpdate(LARGER, SERVICE, DEFINITION);
});
