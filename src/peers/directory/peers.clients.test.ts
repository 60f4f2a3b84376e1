import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HttpOrigin } from '../client/http-origin.ts';
import { HttpTarget } from '../client/http-target.ts';
import type { PeerConnection } from '../connection/peer-connection.ts';
import type { Origin, Target } from '../delegation-ports.ts';
import { UpstreamTarget } from '../go/upstream-target.ts';
import type { PeerAddress } from '../peer.ts';
import { peerClients } from './peers.ts';

const SELF = { target: {} as Target, origin: {} as Origin };
const at = (endpoint: string, kind: PeerAddress['kind'] = 'oscar'): PeerAddress => ({
  clusterId: 'b',
  endpoint,
  verify: true,
  guarded: false,
  kind,
});

test('each manager is spoken to as its kind is, and this one is not dialled', () => {
  const connectionTo = ({ endpoint }: PeerAddress) => (endpoint === 'http://here' ? 'self' : ({} as PeerConnection));
  const clients = peerClients({ connectionTo }, SELF);
  assert.equal(clients.targetAt(at('http://here')), SELF.target);
  assert.equal(clients.originAt(at('http://here')), SELF.origin);
  assert.ok(clients.targetAt(at('http://there')) instanceof HttpTarget);
  assert.ok(clients.targetAt(at('http://there', 'upstream')) instanceof UpstreamTarget);
  assert.ok(clients.originAt(at('http://there')) instanceof HttpOrigin);
});
