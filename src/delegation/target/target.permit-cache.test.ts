import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Secret } from '../../lib/secret.ts';
import type { Permit } from '../../peers/index.ts';
import { PermitCache } from './target.ts';

const key = new Secret('k');
const permit = (lease: number): Permit => ({
  store: { endpoint: 'http://s', region: 'r', verify: true, accessKey: key, secretKey: key, expiresAt: 0 },
  staging: { bucket: 'b', prefix: 'p/', manifest: 'm' },
  lease,
});
const taken = (uid: string) => ({ uid, member: 'b/calf', job: { service: 'cow', id: 'cow-1' }, epoch: 1, payload: '' });

test('permit cache: permits of jobs that never started are dropped', () => {
  let now = 0;
  const permits = new PermitCache({ services: undefined as never, coordinatorOf: undefined as never, now: () => now });
  for (let n = 0; n < 100; n++) {
    now += 10_000;
    permits.keep({ service: 'calf', id: `calf-${n}`, taken: taken('u') }, permit(90_000));
  }
  assert.ok(permits.size <= 3, `${permits.size} are kept`);
});

test("permit cache: each federation has the lease of its origin's last permit", () => {
  const permits = new PermitCache({ services: undefined as never, coordinatorOf: undefined as never, now: () => 0 });
  permits.keep({ service: 'calf', id: 'calf-1', taken: taken('u') }, permit(30_000));
  assert.equal(permits.leaseFor({ taken: taken('u') }), 30_000);
  assert.equal(permits.leaseFor({ taken: taken('v') }), 90_000);
});
