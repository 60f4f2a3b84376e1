import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { json } from 'node:stream/consumers';
import { test } from 'node:test';
import { Secret } from '../../../lib/secret.ts';
import { ClusterClient } from '../../client/cluster-client.ts';
import { ClientError } from '../../client/errors.ts';
import { sendDefinition } from './send-definition.ts';

type Reply = readonly [status: number, text?: string];

interface Seen {
  readonly method: string;
  readonly body: { environment?: { secrets?: Record<string, string> }; clusters?: object };
}

/** Sends a definition to a manager that gives these answers in order. Returns its requests and counts the grants. */
async function ask(replies: readonly Reply[]) {
  const seen: Seen[] = [];
  const grants = { created: 0, revoked: 0 };
  const left = [...replies];
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    seen.push({ method: request.method ?? '', body: (await json(request)) as Seen['body'] });
    const [status, said = ''] = left.shift() ?? [500, 'too many requests'];
    response.writeHead(status).end(said);
  };
  const server = createServer((request, response) => void answer(request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  const entry = { endpoint: `http://127.0.0.1:${port}`, ssl_verify: true };
  const credentials = { kind: 'bearer', authorization: async () => new Secret('Bearer x') } as const;
  const sources = {
    createGrant: async () => {
      grants.created += 1;
      return { refreshToken: new Secret('fresh'), revoke: async () => void (grants.revoked += 1) };
    },
    findClusters: (text: string) => (text.includes('"b" is unknown') ? { b: { endpoint: 'https://b' } } : {}),
  };
  try {
    const sent = await sendDefinition(new ClusterClient('one', entry, credentials), { name: 'x' }, sources).catch(
      (error: unknown) => error,
    );
    return { sent, seen, grants, asked: seen.map(({ method }) => method).join(' ') };
  } finally {
    server.close();
    server.closeAllConnections();
  }
}

const NO_GRANT: Reply = [400, 'environment.secrets.refresh_token is required for a service with members'];

test('apply: a service that exists is updated', async () => {
  const { sent, asked } = await ask([[204]]);
  assert.deepEqual([sent, asked], [{ action: 'updated', remark: '' }, 'PUT']);
});

test('apply: a service that does not exist is created', async () => {
  const { sent, asked } = await ask([[404], [201]]);
  assert.deepEqual([sent, asked], [{ action: 'created', remark: '' }, 'PUT POST']);
});

test('apply: a service that another client creates meanwhile is updated', async () => {
  const { sent, asked } = await ask([[404], [409], [204]]);
  assert.deepEqual([sent, asked], [{ action: 'updated', remark: '' }, 'PUT POST PUT']);
});

test('apply: a name that another user has is a conflict, after three rounds', async () => {
  const taken: Reply = [409, 'the name is taken'];
  const { sent, asked } = await ask([[404], taken, [404], taken, [404], taken]);
  assert.ok(sent instanceof ClientError && sent.code === 'conflict' && sent.message === 'the name is taken');
  assert.equal(asked, 'PUT POST PUT POST PUT POST');
});

test('apply: a federated service without a refresh token gets its own grant, once', async () => {
  const { sent, seen, grants } = await ask([[404], NO_GRANT, [201]]);
  assert.deepEqual(sent, { action: 'created', remark: '' });
  assert.equal(seen[1]?.body.environment, undefined);
  assert.equal(seen[2]?.body.environment?.secrets?.['refresh_token'], 'fresh');
  assert.deepEqual(grants, { created: 1, revoked: 0 });
});

test('apply: a grant is revoked when the create is rejected', async () => {
  const { sent, grants } = await ask([[404], NO_GRANT, [403, 'not there']]);
  assert.ok(sent instanceof ClientError && sent.code === 'not-allowed');
  assert.deepEqual(grants, { created: 1, revoked: 1 });
});

test('apply: a grant is kept when the outcome of the create is unknown', async () => {
  const { grants } = await ask([[404], NO_GRANT, [504, 'a member does not answer']]);
  assert.deepEqual(grants, { created: 1, revoked: 0 });
});

test('apply: the endpoint of a cluster that the manager does not know is sent along if the configuration has it', async () => {
  const { sent, seen } = await ask([[400, 'cluster "b" is unknown: name it'], [204]]);
  assert.deepEqual(sent, { action: 'updated', remark: '' });
  assert.deepEqual(seen[1]?.body.clusters, { b: { endpoint: 'https://b' } });
});

test('apply: any other error is reported without a retry', async () => {
  const { sent, asked } = await ask([[400, 'cluster "c" is unknown: name it']]);
  assert.ok(sent instanceof ClientError && sent.code === 'bad-input' && /"c" is unknown/.test(sent.message));
  assert.equal(asked, 'PUT');
});
