import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Line, PeerAddress } from '../../federation/index.ts';
import type { Origin, Target } from '../terms.ts';
import { HttpOrigin } from './http-origin.ts';
import { HttpTarget } from './http-target.ts';
import { UpstreamTarget } from './upstream-target.ts';
import { waysOver } from './ways.ts';

const SELF = { target: {} as Target, origin: {} as Origin };
const at = (endpoint: string, kind: PeerAddress['kind'] = 'oscar'): PeerAddress => ({
  clusterId: 'b',
  endpoint,
  verify: true,
  guarded: false,
  kind,
});

test('each manager is spoken to as its kind is, and this one is not dialled', () => {
  const lineTo = ({ endpoint }: PeerAddress) => (endpoint === 'http://here' ? 'self' : ({} as Line));
  const ways = waysOver({ lineTo }, SELF);
  assert.equal(ways.targetAt(at('http://here')), SELF.target);
  assert.equal(ways.originAt(at('http://here')), SELF.origin);
  assert.ok(ways.targetAt(at('http://there')) instanceof HttpTarget);
  assert.ok(ways.targetAt(at('http://there', 'upstream')) instanceof UpstreamTarget);
  assert.ok(ways.originAt(at('http://there')) instanceof HttpOrigin);
});
