import assert from 'node:assert/strict';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { Secret } from '../lib/secret.ts';
import { TraceExporter, type TraceSpan } from './trace-exporter.ts';

interface Received {
  readonly url: string | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly body: { resourceSpans: { resource: unknown; scopeSpans: { spans: Record<string, unknown>[] }[] }[] };
}

/** A collector that answers with these statuses, one after the other, and then with 200. */
async function collector(t: TestContext, statuses: number[] = []) {
  const received: Received[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = JSON.parse(Buffer.concat(chunks).toString());
      received.push({ url: request.url, headers: request.headers, body });
      response.writeHead(statuses.shift() ?? 200).end('{}');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => new Promise((resolve) => server.close(resolve)));
  const { port } = server.address() as AddressInfo;
  return { endpoint: `http://127.0.0.1:${port}/`, received };
}

const span = (id: string, more: Partial<TraceSpan> = {}): TraceSpan => ({
  trace: 'a'.repeat(32),
  id,
  name: 'run',
  start: 1_700_000_000_123,
  end: 1_700_000_000_456,
  attributes: { 'oscar.job': 'cow-1', 'oscar.exit_code': 3 },
  ...more,
});

const unexpected = (problem: unknown) => assert.fail(String(problem));

test('spans go to the collector in one request, with names and times as OTLP has them', async (t) => {
  const { endpoint, received } = await collector(t);
  const headers = { authorization: new Secret('Bearer x') };
  const exporter = new TraceExporter({ endpoint, headers, resource: { 'service.name': 'oscar' }, report: unexpected });
  exporter.add([span('1'.repeat(16)), span('2'.repeat(16), { parent: '1'.repeat(16), problem: 'Timeout: too long' })]);
  await exporter.close();
  assert.equal(received.length, 1);
  const [{ url, headers: sent, body } = assert.fail()] = received;
  assert.equal(url, '/v1/traces');
  assert.equal(sent.authorization, 'Bearer x');
  const [group = assert.fail()] = body.resourceSpans;
  assert.deepEqual(group.resource, { attributes: [{ key: 'service.name', value: { stringValue: 'oscar' } }] });
  const [first = assert.fail(), second = assert.fail()] = group.scopeSpans[0]?.spans ?? [];
  assert.equal(first['startTimeUnixNano'], '1700000000123000000');
  assert.equal(first['endTimeUnixNano'], '1700000000456000000');
  assert.equal(first['parentSpanId'], undefined);
  assert.deepEqual(first['attributes'], [
    { key: 'oscar.job', value: { stringValue: 'cow-1' } },
    { key: 'oscar.exit_code', value: { doubleValue: 3 } },
  ]);
  assert.equal(second['parentSpanId'], '1'.repeat(16));
  assert.deepEqual(second['status'], { code: 2, message: 'Timeout: too long' });
});

test('a collector that is away is reported, and gets the spans when it is back', async (t) => {
  const { endpoint, received } = await collector(t, [503]);
  const problems: unknown[] = [];
  const told = Promise.withResolvers<void>();
  const report = (problem: unknown) => {
    problems.push(problem);
    told.resolve();
  };
  const exporter = new TraceExporter({ endpoint, resource: {}, report, every: 1 });
  exporter.add([span('1'.repeat(16))]);
  await told.promise;
  await exporter.close();
  assert.match(String(problems[0]), /503/);
  assert.equal(received.length, 2);
  assert.deepEqual(received[1]?.body, received[0]?.body);
});

test('many spans go in several requests, and none is lost', async (t) => {
  const { endpoint, received } = await collector(t);
  const exporter = new TraceExporter({ endpoint, resource: {}, report: unexpected, every: 1 });
  for (let at = 0; at < 2_000; at++) exporter.add([span(at.toString(16).padStart(16, '0'))]);
  const count = () => received.flatMap(({ body }) => body.resourceSpans[0]?.scopeSpans[0]?.spans ?? []).length;
  while (count() < 2_000) await exporter.close();
  assert.equal(count(), 2_000);
});
