import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Service } from '../model/service/index.ts';
import { aService } from '../model/service/service.fixture.ts';
import type { ServiceStore, Subscription } from '../ports/index.ts';
import { renewSubscriptions } from './storage.ts';

const reading = (name: string, uid: string, ...paths: string[]) =>
  aService({ name, input: paths.map((path) => ({ storage_provider: 'minio.default', path })) }, { uid });

/** Services in pages of one, as they were when listed and as they are now, and a store without subscriptions. */
function scene(listed: readonly Service[], now = listed) {
  const rules = new Set<string>();
  const ruleOf = ({ subscriber, bucket, prefix }: Subscription) => `${subscriber} ${bucket}/${prefix}`;
  const record = (service: Service) => ({ service, version: '1' });
  const services = {
    list: async ({ cursor = '0' }) => {
      const at = Number(cursor);
      const next = at + 1 < listed.length && { next: String(at + 1) };
      return { items: listed.slice(at, at + 1).map(record), ...next };
    },
    get: async (name: string) => now.filter(({ definition }) => definition.name === name).map(record)[0],
  } as Pick<ServiceStore, 'list' | 'get'>;
  const objects = {
    subscribe: async (subscription: Subscription) => void rules.add(ruleOf(subscription)),
    unsubscribe: async (subscription: Subscription) => void rules.delete(ruleOf(subscription)),
  };
  return { rules, renew: (signal = new AbortController().signal) => renewSubscriptions(services, objects, signal) };
}

test('subscriptions: every service on every page gets its subscriptions again', async () => {
  const { rules, renew } = scene([
    reading('a', 'u1', 'alpha/in', 'alpha/more'),
    reading('b', 'u2'),
    reading('c', 'u3', 'gamma/in'),
  ]);
  assert.equal(await renew(), 3);
  assert.deepEqual([...rules], ['u1 alpha/in/', 'u1 alpha/more/', 'u3 gamma/in/']);
});

test('subscriptions: a service that was removed or changed since it was listed keeps only its present ones', async () => {
  const { rules, renew } = scene(
    [
      reading('gone', 'u1', 'gone/in'),
      reading('changed', 'u2', 'gamma/old', 'gamma/kept'),
      reading('anew', 'u3', 'alpha/in'),
    ],
    [reading('changed', 'u2', 'gamma/kept'), reading('anew', 'u4', 'alpha/in')],
  );
  await renew();
  assert.deepEqual([...rules], ['u2 gamma/kept/']);
});

test('subscriptions: a manager that stops creates no more of them', async () => {
  const { rules, renew } = scene([reading('a', 'u1', 'alpha/in')]);
  await assert.rejects(renew(AbortSignal.abort()), { name: 'AbortError' });
  assert.deepEqual([...rules], []);
});
