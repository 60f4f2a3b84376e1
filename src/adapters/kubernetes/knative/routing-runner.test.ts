import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import type { Attempt } from '../../../model/job/index.ts';
import { endOf, untilPrinted } from '../../../ports/conformance/runner-under-test.ts';
import { ATTEMPT } from '../runner/pods.fixture.ts';
import { asCall, KnativeFixture } from './knative.fixture.ts';

const attemptOf = (script: string): Attempt => asCall({ ...ATTEMPT, name: `svc-${randomUUID()}`, script });

const podsOf = ({ server }: KnativeFixture) => server.all('pods').length;

test('routing: a call that runs when Knative is turned off counts as lost, and gets no pod', async (t) => {
  const place = await KnativeFixture.open(t);
  const [before, after] = [place.manager(true), place.manager(false)];
  const attempt = attemptOf('echo begun; sleep 60');
  await before.start(attempt);
  await untilPrinted(before, attempt.name, 'begun');
  await before.close();
  await after.start(attempt);
  const { outcome, reason } = await endOf(after, attempt.name);
  assert.deepEqual([outcome, reason, podsOf(place)], ['failed', 'Lost', 0]);
});

test('routing: a call whose manager died without recording its outcome counts as lost', async (t) => {
  const place = await KnativeFixture.open(t);
  const attempt = attemptOf('echo begun; sleep 60');
  const before = place.manager(true);
  await before.start(attempt);
  await untilPrinted(before, attempt.name, 'begun');
  const after = place.manager(false);
  await after.start(attempt);
  const { reason, message } = await endOf(after, attempt.name);
  assert.deepEqual([reason, podsOf(place)], ['Lost', 0]);
  assert.match(message, /the manager that had called is gone/);
});

test('routing: calls from before Knative was turned off are still found', async (t) => {
  const place = await KnativeFixture.open(t);
  const [before, after] = [place.manager(true), place.manager(false)];
  const attempt = attemptOf('echo printed');
  await before.start(attempt);
  await endOf(before, attempt.name);
  await untilPrinted(after, attempt.name, 'printed');
  await after.forget(attempt.name);
  assert.deepEqual([await after.list(), place.server.all('secrets')], [[], []]);
});

test('routing: an attempt in a pod stays there when Knative is turned on, also before the watch has reported the pod', async (t) => {
  const place = await KnativeFixture.open(t);
  const attempt = attemptOf('echo begun');
  const [before, after] = [place.manager(false), place.manager(true)];
  await after.list();
  await before.start(attempt);
  await after.start(attempt);
  assert.deepEqual(await after.pods.list(), [attempt.name]);
  assert.equal(place.server.all('secrets').length, 1);
});

test('routing: the first start of an attempt in a pod does not look for a call', async (t) => {
  const place = await KnativeFixture.open(t);
  const manager = place.manager(false);
  const { name, ...attempt } = attemptOf('echo begun');
  await manager.list();
  const before = place.server.heard.length;
  await manager.start({ ...attempt, name });
  const asked = place.server.heard.slice(before).filter((each) => /GET .*(secrets|configmaps)/.test(each));
  assert.deepEqual(asked, []);
});
