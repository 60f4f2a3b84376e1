import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { HttpClient } from '../../../lib/http/index.ts';
import { Api } from './api.ts';
import type { Endpoint } from './endpoint.ts';
import { CONFIG_MAP, LEASE } from './kinds.ts';

/** A server that answers requests for a Lease, and no others. */
async function scene(t: TestContext, rate: { perSecond: number; burst: number }) {
  const server = http.createServer((request, response) => {
    if (request.url?.includes('/leases/')) response.end(JSON.stringify({ metadata: { name: 'leader' } }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = new HttpClient({ verify: true });
  t.after(() => {
    client.close();
    server.closeAllConnections();
    server.close();
  });
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const endpoint = { url, connect: async () => ({ client, headers: {} }) } as unknown as Endpoint;
  return new Api(endpoint, { rate, requestMs: 60_000, patienceMs: 0, random: () => 0 });
}

test('API client: a request for a Lease does not wait for other requests', async (t) => {
  const api = await scene(t, { perSecond: 1, burst: 40 });
  const others = Array.from({ length: 41 }, (_, n) => api.get(CONFIG_MAP, { namespace: 'ns', name: `c${n}` }));
  for (const other of others) other.catch(() => undefined);
  const lease = await api.get(LEASE, { namespace: 'oscar', name: 'leader' });
  assert.equal(lease?.metadata.name, 'leader');
});
