import assert from 'node:assert/strict';
import diagnostics from 'node:diagnostics_channel';
import { after, before, describe, test } from 'node:test';
import type { FastifyInstance } from 'fastify';
import { parseJson } from '../../src/lib/json.ts';
import { OscarError } from '../../src/lib/oscar-error.ts';
import { loopProblems, present, readDefinition, ServiceSchema, settleSecrets } from '../../src/model/service/index.ts';
import { aService } from '../../src/model/service/service.fixture.ts';
import { permits, readPolicy } from '../../src/s3-server/access/authorization.ts';
import { corsHeaders, preflight, readCors } from '../../src/s3-server/http/cors.ts';
import { S3Error } from '../../src/s3-server/lib/errors.ts';
import { compileWildcard } from '../../src/s3-server/lib/wildcard.ts';
import { readXml } from '../../src/s3-server/lib/xml.ts';
import { sign } from '../objectstore/signed-request.ts';
import { ANA, startStore } from '../objectstore/start-store.ts';
import { assertLinearCost, type GrowingInput, growingInputs, HOSTILE_TEXTS } from '../support/cpu-cost.ts';
import { ADMIN, startTestManager, type TestManager } from '../support/manager.ts';

/** No input costs more than its size: every input of the manager and of the store, at its limit and at half of it. */

const SERVICE = aService();
const LEAST = { name: 'demo', image: 'ubuntu', script: 'echo' };

/** An error that tells the caller what is wrong is as good as an answer. */
function attempt(run: () => unknown): void {
  try {
    run();
  } catch (error) {
    if (!(error instanceof OscarError || error instanceof S3Error)) throw error;
  }
}

/** What the manager does with the body of a create before it stores anything, and to show the service. */
function readAndShow(body: Uint8Array): void {
  const { definition, secrets } = readDefinition(parseJson(body));
  loopProblems(definition);
  settleSecrets(definition, secrets, { definition, secrets });
  present({ ...SERVICE, definition }, { store: { endpoint: '', verify: true, region: '' }, showToken: true });
}

/** Lists and maps beyond any limit of theirs, of about 1 MiB; texts that show a quadratic cost within seconds. */
const LENGTHS: Record<GrowingInput['kind'], number> = { list: 20_000, map: 40_000, text: 128 * 1024 };

describe('input costs: the definition of a service', () => {
  const byPath = Map.groupBy(growingInputs(ServiceSchema), ({ path }) => path);
  test('the generator finds every kind of input', () => {
    const kinds = new Map([...byPath].map(([path, [first]]) => [path, first?.kind]));
    assert.equal(kinds.get('environment.variables'), 'map');
    assert.equal(kinds.get('federation.members'), 'list');
    assert.equal(kinds.get('input[].path'), 'text');
    assert.ok(byPath.size > 100, String(byPath.size));
  });
  const encoded = (value: unknown) => new TextEncoder().encode(JSON.stringify({ ...LEAST, ...(value as object) }));
  for (const [path, inputs] of byPath) {
    test(path, async () => {
      for (const { kind, build } of inputs) {
        const [half, whole] = [encoded(build(LENGTHS[kind] / 2)), encoded(build(LENGTHS[kind]))];
        await assertLinearCost(
          path,
          () => attempt(() => readAndShow(half)),
          () => attempt(() => readAndShow(whole)),
        );
      }
    });
  }
});

interface RouteInput {
  readonly method: string;
  readonly url: string;
  readonly schema: { readonly querystring?: unknown; readonly body?: unknown } | undefined;
}

describe('input costs: the routes', () => {
  const routes: RouteInput[] = [];
  let manager: TestManager;
  before(async () => {
    const collect = (message: unknown) => {
      const { fastify } = message as { readonly fastify: FastifyInstance };
      fastify.addHook('onRoute', ({ method, url, schema }) => {
        for (const each of [method].flat()) routes.push({ method: each, url, schema });
      });
    };
    diagnostics.subscribe('fastify.initialization', collect);
    manager = await startTestManager({ OSCAR_LOG_LEVEL: 'silent', OSCAR_EVENTS_TOKEN: 'token-of-the-store' });
    diagnostics.unsubscribe('fastify.initialization', collect);
    const { status, text } = await manager.call('POST', '/system/services', { as: ADMIN, body: LEAST });
    assert.equal(status, 201, text);
  });
  after(() => manager[Symbol.asyncDispose]());

  /** A request costs a little by itself, in the client too. */
  const CHEAP_REQUEST_MS = 25;
  const pathOf = (url: string) => url.replaceAll(/:[^/]+/g, 'demo').replace('*', '');
  const send = async (method: string, path: string, body?: string) => {
    const as = path.startsWith('/system/events/storage') ? 'Bearer token-of-the-store' : ADMIN;
    const { status, text } = await manager.call(method, path, { as, ...(body !== undefined && { body }) });
    assert.ok(status < 500 || status === 503, `${method} ${path.slice(0, 100)}: ${status} ${text.slice(0, 200)}`);
  };

  /** Less than Node's limit for all headers, 16 KiB. */
  const LONGEST_QUERY = 12 * 1024;

  test('every query parameter', async () => {
    const asked = routes.flatMap(({ method, url, schema }) => {
      const { properties = {} } = (schema?.querystring ?? {}) as { properties?: object };
      return Object.keys(properties).map((name) => ({ method, url, name }));
    });
    assert.ok(asked.length > 20, String(asked.length));
    for (const { method, url, name } of asked.filter((each) => each.method === 'GET')) {
      for (const unit of ['a', 'a,', '%2F', '0', '-', '+', `&${name}=`]) {
        const path = (length: number) => `${pathOf(url)}?${name}=${unit.repeat(length / unit.length)}`;
        const [half, whole] = [path(LONGEST_QUERY / 2), path(LONGEST_QUERY)];
        const about = `${method} ${url}?${name} of ${unit}`;
        await assertLinearCost(
          about,
          () => send(method, half),
          () => send(method, whole),
          CHEAP_REQUEST_MS,
        );
      }
    }
  });

  test('every key of a body other than a definition', async () => {
    const bodies = routes.filter(({ url, schema }) => schema?.body && !url.startsWith('/system/services'));
    assert.ok(bodies.length >= 8, String(bodies.length));
    for (const { method, url, schema } of bodies) {
      for (const { path, kind, build } of growingInputs(schema?.body)) {
        const [half, whole] = [JSON.stringify(build(LENGTHS[kind] / 2)), JSON.stringify(build(LENGTHS[kind]))];
        const about = `${method} ${url}: ${path}`;
        const target = pathOf(url);
        await assertLinearCost(
          about,
          () => send(method, target, half),
          () => send(method, target, whole),
          60,
        );
      }
    }
  });
});

describe('input costs: policies and documents of the store', () => {
  const LONGEST = 64_000;
  const policyOf = (statement: object) =>
    JSON.stringify({
      Version: '2012-10-17',
      Statement: [{ Effect: 'Allow', Action: 's3:GetObject', Resource: '*', ...statement }],
    });
  const fill = (unit: string, length: number) => unit.repeat(Math.floor(length / unit.length));
  const list = (unit: string, length: number) =>
    Array.from({ length: Math.floor(length / (unit.length + 10)) }, (_, index) => `${unit}${index}`);
  const ARN = 'arn:aws:s3:::';
  const question = { action: 's3:GetObject', bucket: 'a'.repeat(63), key: 'a'.repeat(1024), prefix: 'a'.repeat(1024) };

  const units = ['*a', '?*', 'a', '?', '*', 'a*b', '${*}', '*aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab'];
  const statements: [string, (length: number) => object][] = units.flatMap((unit) => [
    [`one resource of ${unit}`, (length) => ({ Resource: `${ARN}${fill(unit, length)}` })],
    [`resources of ${unit}`, (length) => ({ Resource: list(`${ARN}${unit}`, length) })],
    [`an action of ${unit}`, (length) => ({ Action: `s3:${fill(unit.replaceAll(/[^a*?]/g, ''), length)}` })],
    [`a prefix of ${unit}`, (length) => ({ Condition: { StringLike: { 's3:prefix': fill(unit, length) } } })],
    [`prefixes of ${unit}`, (length) => ({ Condition: { StringLike: { 's3:prefix': list(unit, length) } } })],
  ]);
  for (const [name, statement] of statements) {
    test(`a policy with ${name}`, async () => {
      const evaluate = (length: number) => {
        const text = policyOf(statement(length));
        return () => {
          const policy = readPolicy(text);
          for (let request = 0; request < 3; request++) permits(policy, question);
        };
      };
      await assertLinearCost(name, evaluate(LONGEST / 2), evaluate(LONGEST));
    });
  }

  test('a pattern and a text that grow together', async () => {
    for (const unit of units) {
      const match = (length: number) => () => compileWildcard(`*${fill(unit, length)}b`)('a'.repeat(1024));
      await assertLinearCost(unit, match(512), match(1024));
    }
  });

  test('an XML document', async () => {
    const documents = ['<a>', '<a/>', '<!--', '<?', '<![CDATA[', '&amp;', '&', '<a ', '<a b="c"', ' ', 'a', '<', '>'];
    for (const unit of documents) {
      const read = (length: number) => {
        const text = `<Delete>${fill(unit, length)}</Delete>`;
        return () => attempt(() => readXml(text, 'Delete'));
      };
      await assertLinearCost(unit, read(256 * 1024), read(512 * 1024));
    }
  });

  test('a CORS configuration, and the preflight request of a stranger', async () => {
    for (const unit of units.filter((each) => !each.includes('$'))) {
      const ask = (length: number) => {
        const headers = list(unit, length)
          .map((each) => `<AllowedHeader>${each}</AllowedHeader>`)
          .join('');
        const rule = `<AllowedOrigin>*x</AllowedOrigin><AllowedMethod>PUT</AllowedMethod>${headers}`;
        const request = {
          method: 'OPTIONS',
          headers: {
            origin: 'https://page.example/x',
            'access-control-request-method': 'PUT',
            'access-control-request-headers': list('a', 1_000).join(','),
          },
        } as unknown as Parameters<typeof preflight>[0];
        const text = `<CORSConfiguration><CORSRule>${rule}</CORSRule></CORSConfiguration>`;
        return () => {
          const rules = readCors(text);
          preflight(request, rules);
          corsHeaders(request, rules);
        };
      };
      await assertLinearCost(unit, ask(8 * 1024), ask(16 * 1024));
    }
  });
});

test('input costs: queries, headers and signed names of requests to the store', async () => {
  await using store = await startStore();
  const { host } = new URL(store.endpoint);
  await store.store.createBucket({ name: 'photos', owner: ANA.accessKey });
  const many = (unit: string, length: number) =>
    Array.from({ length: Math.floor(length / 20) }, (_, i) => `${unit}${i}=1`);
  const requests: [string, (length: number) => { path: string; headers?: Record<string, string>; signed?: string }][] =
    [
      ['x-amz parameters', (length) => ({ path: `/photos/a?${many('x-amz-meta-', length).join('&')}` })],
      ['unknown parameters', (length) => ({ path: `/photos/a?${many('some-name-', length).join('&')}` })],
      ['a long prefix', (length) => ({ path: `/photos?prefix=${'a/'.repeat(length / 2)}&delimiter=/` })],
      ['a long key', (length) => ({ path: `/photos/${'a'.repeat(length)}` })],
      [
        'metadata headers',
        (length) => ({
          path: '/photos/a',
          headers: Object.fromEntries(many('x-amz-meta-', length).map((pair) => [pair.slice(0, -2), '1'])),
        }),
      ],
      ...HOSTILE_TEXTS.filter((text) => /^[ -~]+$/.test(text(10)))
        .map(
          (text, index) =>
            [
              `a header value ${index}`,
              (length: number) => ({ path: '/photos/a', headers: { 'x-amz-meta-a': `a${text(length - 2)}b` } }),
            ] as const,
        )
        .map(([name, build]) => [name, build] as [string, typeof build]),
      [
        'a name that is signed many times',
        (length) => ({
          path: '/photos/a',
          headers: { 'x-amz-meta-a': 'v'.repeat(length / 2) },
          signed: `;${'x-amz-meta-a;'.repeat(length / 26)}x-amz-meta-a`,
        }),
      ],
    ];
  for (const [name, build] of requests) {
    const send = (length: number) => {
      const { path, headers = {}, signed = '' } = build(length);
      const { host: _, ...rest } = sign({ method: 'GET', path, host, keys: ANA, headers }).headers;
      rest['authorization'] = rest['authorization']?.replace(/(SignedHeaders=[^,]*)/, `$1${signed}`) ?? '';
      return async () => {
        const answer = await fetch(`${store.endpoint}${path}`, { headers: rest });
        await answer.text();
        assert.ok(answer.status < 500 || answer.status === 501, `${name}: ${answer.status}`);
      };
    };
    await assertLinearCost(name, send(12 * 1024), send(24 * 1024), 25);
  }
});
