import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, beforeEach, describe, test } from 'node:test';
import * as fc from 'fast-check';
import { Compile } from 'typebox/schema';
import { serviceBodies } from '../src/model/service/service.arbitrary.ts';
import { eventually } from './support/jobs.ts';
import { ADMIN, startTestManager, type TestManager } from './support/manager.ts';
import {
  answerProblem,
  forbiddenBodies,
  type Operation,
  type Parameter,
  readOperations,
  type Schema,
  valuesOf,
} from './support/openapi.ts';
import { type People, startPeople } from './support/people.ts';

/*
 * Requests that are generated from the OpenAPI document, for every operation in it: an operation that is added to the document
 * is called too. A valid request is not refused as invalid; every answer has a documented status and a body as documented.
 */

/** Requests for each operation, valid and invalid ones; `npm run test:long` sends more, but not so many as of pure functions. */
const RUNS = Math.min(Number(process.env['OSCAR_TEST_RUNS'] ?? 4), 200);
const SEED = process.env['OSCAR_TEST_SEED'];
const COUNT = { numRuns: RUNS, ...(SEED !== undefined && { seed: Number(SEED) }) };

const documented: unknown = JSON.parse(readFileSync(new URL('../docs/openapi.json', import.meta.url), 'utf8'));
const operations = readOperations(documented);

const SERVICE = 'petri';
const BUCKET = 'petri-dish';

let people: People;
let manager: TestManager;
let job = '';
before(async () => {
  people = await startPeople();
  // Adding a member there fails quickly: nobody listens.
  const clusters = { elsewhere: { endpoint: 'http://127.0.0.1:9' } };
  manager = await startTestManager({ ...people.settings, OSCAR_CLUSTERS: JSON.stringify(clusters) });
});
after(async () => {
  await manager[Symbol.asyncDispose]();
  await people.issuer.stop();
});

/** Whether a request may have removed or changed what requests are about. */
let isChanged = true;
beforeEach(async () => {
  if (!isChanged) return;
  isChanged = false;
  const as = people.alice;
  await manager.call('PUT', '/system/config', { as: ADMIN, body: { allowed_image_repositories: [] } });
  // A service without members takes any text for one.
  const environment = { secrets: { refresh_token: 'none' } };
  const definition = { name: SERVICE, image: 'busybox', script: '#!/bin/sh\necho grown\n', cpu: '0.1', environment };
  await manager.call('DELETE', `/system/services/${SERVICE}`, { as: ADMIN });
  await manager.call('DELETE', `/system/buckets/${BUCKET}`, { as: ADMIN });
  assert.equal((await manager.call('POST', '/system/services', { as, body: definition })).status, 201);
  assert.equal((await manager.call('POST', '/system/buckets', { as, body: { bucket_name: BUCKET } })).status, 201);
  const submitted = await manager.call('POST', `/job/${SERVICE}`, { as, body: 'x' });
  job = submitted.headers.get('x-oscar-job-id') ?? '';
  await eventually(async () => {
    const { state } = (await manager.call('GET', `/system/jobs/${SERVICE}/${job}`, { as })).json() as { state: string };
    assert.equal(state, 'succeeded');
  });
});

type Values = Record<string, unknown>;

interface Sent {
  readonly values: Values;
  readonly body: unknown;
  readonly caller: string;
}

describe('OpenAPI: valid requests of every operation are accepted, and answered as documented', () => {
  for (const operation of operations) {
    test(`${operation.method} ${operation.path}`, async () => {
      await fc.assert(
        fc.asyncProperty(validRequests(operation), async (sent) => {
          const answer = await send(operation, sent);
          assert.equal(answerProblem(operation, answer), undefined);
          assert.ok(!isFault(answer.status) || isScriptFailure(operation, answer.status), answer.text);
          assert.ok(!isRefusal(operation, answer), `refused: ${JSON.stringify(sent)}: ${answer.text}`);
        }),
        COUNT,
      );
    });
  }
});

describe('OpenAPI: invalid requests of every operation get 4xx as documented', () => {
  for (const operation of operations) {
    if (!canBeInvalid(operation)) continue;
    test(`${operation.method} ${operation.path}`, async () => {
      await fc.assert(
        fc.asyncProperty(invalidRequests(operation), async (sent) => {
          const answer = await send(operation, sent);
          assert.equal(answerProblem(operation, answer), undefined);
          assert.match(String(answer.status), /^4/, `${JSON.stringify(sent)}: ${answer.text}`);
        }),
        COUNT,
      );
    });
  }
});

test('OpenAPI: docs/openapi.json is the document that a manager serves', async () => {
  const live = (await manager.call('GET', '/openapi.json')).json() as { info: object };
  const { info } = documented as { info: object };
  assert.deepEqual({ ...live, info: { ...live.info, version: 'latest' } }, { ...(documented as object), info });
});

test('OpenAPI: every operation has a name of its own, a summary and its own errors; every body has an example that is valid', () => {
  assert.equal(new Set(operations.map(({ operationId }) => operationId)).size, operations.length);
  for (const { operationId, summary, responses, security, requestBody } of operations) {
    assert.ok(operationId && summary, operationId);
    assert.ok(responses['503'] && (security.length === 0 || responses['401']), operationId);
    for (const { schema, example } of Object.values(requestBody?.content ?? {})) {
      assert.notEqual(example, undefined, operationId);
      assert.deepEqual(Compile(schema as object).Errors(example)[1], [], operationId);
    }
  }
});

/** Whether the manager found the request invalid. A bucket that exists is 400 too, as existing clients expect. */
const isRefusal = ({ operationId }: Operation, { status, text }: { status: number; text: string }) =>
  status === 413 || (status === 400 && !(operationId === 'createBucket' && text.includes('already exists')));

/** 502, 504: another manager or an issuer does not answer, which is not the fault of this one. */
const isFault = (status: number) => status === 500 || status === 503;

/** The script of the service ends well, but a generated definition may have replaced it. */
const isScriptFailure = ({ operationId }: Operation, status: number) => operationId === 'runService' && status === 500;

/** What requests are about exists, more often than not. */
const EXISTING: Readonly<Record<string, () => string>> = {
  name: () => SERVICE,
  id: () => job,
  bucket_name: () => BUCKET,
};

function parameterValues({ in: where, name, schema }: Parameter, { path }: Operation): fc.Arbitrary<unknown> {
  const values = valuesOf(schema);
  const existing = path.startsWith('/system/buckets') && name === 'name' ? () => BUCKET : EXISTING[name];
  if (where !== 'path' || !existing) return values;
  return fc.oneof(
    { weight: 3, arbitrary: fc.constant(EXISTS).map(() => existing()) },
    { weight: 1, arbitrary: values },
  );
}
const EXISTS = null;

/** A cursor comes from an earlier answer, so a generated one is not valid. */
function isValidAtRandom({ schema }: Parameter): boolean {
  return schema.$comment !== 'cursor';
}

function validRequests(operation: Operation): fc.Arbitrary<Sent> {
  const parameters = operation.parameters.filter(isValidAtRandom);
  const model = Object.fromEntries(parameters.map((each) => [each.name, parameterValues(each, operation)]));
  const requiredKeys = parameters.filter(({ required }) => required).map(({ name }) => name);
  const values = fc
    .record(model, { requiredKeys })
    .map((each) => withShortWait(RULES[operation.operationId]?.(each) ?? each));
  return fc.record({ values, body: validBodies(operation), caller: callers(operation) });
}

/** Longer waits are valid too, but members that never answer would be waited for. */
const withShortWait = (values: Values): Values => ('wait' in values ? { ...values, wait: 0 } : values);

/** Rules between parameters, which OpenAPI cannot express; the descriptions of the parameters have them. */
const RULES: Readonly<Record<string, (values: Values) => Values>> = {
  listJobs: ({ wait: _, ...values }) => values,
  getMetrics: inOrder,
  getServiceMetrics: inOrder,
  getMetricsBreakdown: ({ include_users, ...values }) =>
    inOrder(values['format'] === 'csv' ? values : { ...values, ...(include_users !== undefined && { include_users }) }),
};

function inOrder(values: Values): Values {
  const { start, end } = values as { start?: string; end?: string };
  return start !== undefined && end !== undefined && start > end ? { ...values, start: end, end: start } : values;
}

/** The same for bodies: members are listed once, and each gets one update. */
function withRules(body: unknown): unknown {
  if (typeof body !== 'object' || body === null) return body;
  const { update, ...lists } = body as Record<string, unknown>;
  const key = ['members', 'replicas'].find((each) => Array.isArray(lists[each]));
  if (key === undefined) return body;
  const members = new Map(
    (lists[key] as { service_name?: string; url?: string }[]).map((each) => [`${each.service_name} ${each.url}`, each]),
  );
  return { ...lists, [key]: [...members.values()], ...(update !== undefined && { update: [...members.values()] }) };
}

function validBodies({ requestBody, method }: Operation): fc.Arbitrary<unknown> {
  if (!requestBody) return fc.constant(undefined);
  const { 'application/json': json } = requestBody.content;
  const schema = json?.schema ?? {};
  const bodies = 'script' in (schema.properties ?? {}) ? plainDefinitions : valuesOf(schema);
  const placed = bodies.map((body) => withRules(withExisting(body, method)));
  return requestBody.required ? placed : fc.option(placed, { nil: undefined });
}

/** An update is of something that exists, and a member is on a cluster that is registered. */
function withExisting(body: unknown, method: string): unknown {
  if (Array.isArray(body)) return body.map((each) => withExisting(each, method));
  if (typeof body !== 'object' || body === null) return body;
  return Object.fromEntries(
    Object.entries(body).map(([key, value]) => {
      if (key === 'cluster_id') return [key, 'elsewhere'];
      if (method === 'PUT' && EXISTING[key]) return [key, EXISTING[key]()];
      return [key, withExisting(value, method)];
    }),
  );
}

/** Definitions that need neither other clusters nor other stores. */
const plainDefinitions = serviceBodies.map((body) => {
  const { federation, clusters, storage_providers, cluster_id, expose, vo, isolation_level, ...rest } = body;
  const local = (paths: unknown) =>
    ((paths ?? []) as { storage_provider: string }[]).filter(({ storage_provider }) =>
      /^minio/i.test(storage_provider),
    );
  return { ...rest, input: local(body['input']), output: [] };
});

function canBeInvalid(operation: Operation): boolean {
  return breakableParts(operation).length > 0;
}

/** Parameters with patterns; and the schema of the body, unless any bytes are a body. */
function breakableParts({ parameters, requestBody }: Operation): (Parameter | Schema)[] {
  const breakable = parameters.filter(({ in: where, schema }) => where !== 'header' && schema.pattern !== undefined);
  const schema = requestBody?.content['application/json']?.schema;
  const isBytes = requestBody?.content['application/octet-stream'] !== undefined;
  return schema && !isBytes ? [...breakable, schema] : breakable;
}

/** One parameter breaks its pattern, or the body breaks its schema. */
function invalidRequests(operation: Operation): fc.Arbitrary<Sent> {
  const valid = validRequests(operation);
  const broken = breakableParts(operation).map((part) =>
    'in' in part
      ? fc.tuple(valid, forbiddenTexts(part.schema)).map(([sent, text]) => ({
          ...sent,
          values: { ...sent.values, [part.name]: text },
        }))
      : fc.tuple(valid, bodiesAgainst(operation, part)).map(([sent, body]) => ({ ...sent, body })),
  );
  return fc.oneof(...broken);
}

/** Without a body, a DELETE is about everything, and a body may be left out. */
const bodiesAgainst = ({ requestBody }: Operation, schema: Schema) =>
  forbiddenBodies(schema).filter((text) => requestBody?.required !== false || text !== '');

const forbiddenTexts = ({ pattern = '' }: Schema) =>
  fc.constantFrom('no name', 'x'.repeat(200), '%', 'ä', '-x-', '"').filter((text) => !new RegExp(pattern).test(text));

/** Those whom one of the security schemes of the operation lets in. */
function callers({ operationId, security }: Operation): fc.Arbitrary<string> {
  const admitted = [
    // The keys of the administrator are settings, so that they cannot be rotated.
    ...(security.includes('basic') && operationId !== 'rotateKeys' ? ['admin'] : []),
    ...(security.includes('bearer') ? ['alice'] : []),
  ];
  return fc.constantFrom(...(admitted.length > 0 ? admitted : ['nobody']));
}

async function send(operation: Operation, { values, body, caller }: Sent) {
  if (operation.method !== 'GET') isChanged = true;
  const at = (where: Parameter['in']) =>
    operation.parameters
      .filter((each) => each.in === where && values[each.name] !== undefined)
      .map(({ name }) => [name, String(values[name])] as const);
  const path = at('path').reduce(
    (text, [name, value]) => text.replace(`{${name}}`, encodeURIComponent(value)),
    operation.path,
  );
  const query = new URLSearchParams(Object.fromEntries(at('query')));
  const authorization = caller === 'admin' ? ADMIN : caller === 'alice' ? people.alice : undefined;
  const response = await fetch(`${manager.url}${path}${query.size > 0 ? `?${query.toString()}` : ''}`, {
    method: operation.method,
    headers: { ...Object.fromEntries(at('header')), ...(authorization !== undefined && { authorization }) },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const type = response.headers.get('content-type') ?? '';
  if (type.startsWith('text/event-stream')) {
    await response.body?.cancel();
    return { status: response.status, type, text: ':' };
  }
  return { status: response.status, type, text: await response.text() };
}
