import assert from 'node:assert/strict';
import { test } from 'node:test';
import { networkOf, PasswordThrottle } from './authenticate.ts';

/** Sends wrong passwords until the address is blocked, and returns how many were compared. */
function guess(throttle: PasswordThrottle, address: string, most = 1000): number {
  for (let sent = 0; sent < most; sent++) {
    if (throttle.isBlocked(address)) return sent;
    throttle.fail(address);
  }
  return most;
}

test('password throttle: an address gets a burst of guesses, then one per second', () => {
  let now = 0;
  const throttle = new PasswordThrottle(() => now);
  assert.equal(guess(throttle, '192.0.2.1'), 20);
  now += 1_000;
  assert.equal(guess(throttle, '192.0.2.1'), 1);
  now += 3_000;
  assert.equal(guess(throttle, '192.0.2.1'), 3);
  now += 24 * 3600_000;
  assert.equal(guess(throttle, '192.0.2.1'), 20);
  now -= 3600_000;
  assert.ok(throttle.isBlocked('192.0.2.1'), 'a clock that is set back frees nobody');
});

test('password throttle: other addresses are not affected, addresses of one IPv6 network are', () => {
  const throttle = new PasswordThrottle(() => 0);
  guess(throttle, '2001:db8::1');
  assert.ok(!throttle.isBlocked('192.0.2.1'));
  assert.ok(!throttle.isBlocked('2001:db8:0:1::1'));
  assert.ok(throttle.isBlocked('2001:db8::ffff:1'));
});

test('password throttle: an attacker with many addresses does not fill the memory', () => {
  const throttle = new PasswordThrottle(() => 0);
  guess(throttle, '192.0.2.1');
  for (let i = 0; i < 9_999; i++) throttle.fail(`10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`);
  assert.ok(throttle.isBlocked('192.0.2.1'));
  throttle.fail('192.0.2.2');
  assert.ok(!throttle.isBlocked('192.0.2.1'), 'the oldest is forgotten');
});

for (const [address, network] of [
  ['192.0.2.1', '192.0.2.1'],
  ['::ffff:192.0.2.1', '192.0.2.1'],
  ['2001:db8::1', '2001:db8:0:0'],
  ['2001:0db8:0001:0002:3:4:5:6', '2001:db8:1:2'],
  ['::1', '0:0:0:0'],
  ['fe80::1%eth0', 'fe80:0:0:0'],
  ['', ''],
] as const) {
  test(`password throttle: the network of "${address}"`, () => assert.equal(networkOf(address), network));
}
