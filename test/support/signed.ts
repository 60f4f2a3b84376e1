import assert from 'node:assert/strict';
import { createHash, createHmac, randomBytes } from 'node:crypto';
import type { TestCluster } from './federation.ts';

/** The request with which a coordinator created a member. */
export interface Order {
  readonly uid: string;
  readonly member: string;
  readonly key: string;
}

/** The request that created a worker, as recorded by the proxy of its cluster. */
export function orderOf({ wire }: TestCluster, worker: string): Order {
  const made = wire.seen.find(
    ({ method, path, body }) => method === 'POST' && path === '/system/services' && body.includes(`"${worker}"`),
  );
  assert.ok(made, `nobody made ${worker}`);
  return JSON.parse(Buffer.from(String(made.headers['x-oscar-federation']), 'base64url').toString()) as Order;
}

export interface Signing {
  readonly method: string;
  readonly path: string;
  readonly query?: string;
  readonly body?: string;
}

/** Signs as docs/peer-protocol.md specifies, without the code under test. */
export function sign(
  { uid, member, key }: Order,
  { method, path, query = '', body = '' }: Signing,
): Record<string, string> {
  const time = Date.now();
  const nonce = randomBytes(16).toString('base64url');
  const digest = createHash('sha256').update(body).digest('hex');
  const signature = createHmac('sha256', key)
    .update([method, path, query, digest, time, nonce].join('\n'))
    .digest('hex');
  return {
    'x-oscar-member': [uid, member, time, nonce, signature].join(';'),
    ...(body !== '' && { 'content-digest': `sha-256=:${Buffer.from(digest, 'hex').toString('base64')}:` }),
  };
}
