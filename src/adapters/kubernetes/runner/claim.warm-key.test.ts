import assert from 'node:assert/strict';
import { test } from 'node:test';
import { warmKey } from './claim.ts';
import { ATTEMPT, SETTINGS } from './pods.fixture.ts';

const TRAITS = { namespace: 'ns', labels: { a: 'b' }, annotations: {}, imagePullSecrets: [], sgx: false };
const BASIS = { image: ATTEMPT.image, demand: ATTEMPT.demand, traits: TRAITS };
const KEY = warmKey('cows', BASIS, 'ns', SETTINGS);

test('warm key: it is a legal label value', () => assert.match(KEY, /^[0-9a-f]{40}$/));

test('warm key: an attempt has the key of the warm pods of its service, whatever its script and input', () => {
  const attempt = { ...ATTEMPT, script: 'another', traits: { ...TRAITS, job: { service: 'cows', id: '1' } } };
  assert.equal(warmKey('cows', attempt, 'ns', SETTINGS), KEY);
});

for (const [what, key] of Object.entries({
  service: warmKey('pigs', BASIS, 'ns', SETTINGS),
  namespace: warmKey('cows', BASIS, 'other', SETTINGS),
  image: warmKey('cows', { ...BASIS, image: 'other' }, 'ns', SETTINGS),
  resources: warmKey('cows', { ...BASIS, demand: { ...BASIS.demand, cpu: 1 } }, 'ns', SETTINGS),
  labels: warmKey('cows', { ...BASIS, traits: { ...TRAITS, labels: {} } }, 'ns', SETTINGS),
  'pull secrets': warmKey('cows', { ...BASIS, traits: { ...TRAITS, imagePullSecrets: ['x'] } }, 'ns', SETTINGS),
  "manager's image": warmKey('cows', BASIS, 'ns', { ...SETTINGS, image: 'other' }),
})) {
  test(`warm key: a pod for another ${what} has another key`, () => assert.notEqual(key, KEY));
}
