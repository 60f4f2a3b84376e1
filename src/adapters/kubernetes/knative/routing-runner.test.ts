import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import type { Attempt } from '../../../model/job/index.ts';
import { endOf, untilPrinted } from '../../../ports/conformance/runner-under-test.ts';
import { ATTEMPT } from '../runner/pods.fixture.ts';
import { asCall, KnativeFixture } from './knative.fixture.ts';

const attemptOf = (script: string): Attempt => asCall({ ...ATTEMPT, name: `svc-${randomUUID()}`, script });

const podsOf = ({ server }: KnativeFixture) => server.all('pods').length;

test('a call that runs when Knative is turned off is lost, and no pod is made for it', async (t) => {
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

test('so is one whose manager has died, and has written nothing of its end', async (t) => {
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

test('what was called before Knative was turned off is still known', async (t) => {
  const place = await KnativeFixture.open(t);
  const [before, after] = [place.manager(true), place.manager(false)];
  const attempt = attemptOf('echo printed');
  await before.start(attempt);
  await endOf(before, attempt.name);
  await untilPrinted(after, attempt.name, 'printed');
  await after.forget(attempt.name);
  assert.deepEqual([await after.list(), place.server.all('secrets')], [[], []]);
});

test('an attempt that is in a pod when Knative is turned on stays there, also if that was not heard of yet', async (t) => {
  const place = await KnativeFixture.open(t);
  const attempt = attemptOf('echo begun');
  const [before, after] = [place.manager(false), place.manager(true)];
  await after.list();
  await before.start(attempt);
  await after.start(attempt);
  assert.deepEqual(await after.pods.list(), [attempt.name]);
  assert.equal(place.server.all('secrets').length, 1);
});

test('the first start of an attempt in a pod looks for no call', async (t) => {
  const place = await KnativeFixture.open(t);
  const manager = place.manager(false);
  const { name, ...attempt } = attemptOf('echo begun');
  await manager.list();
  const before = place.server.heard.length;
  await manager.start({ ...attempt, name });
  const asked = place.server.heard.slice(before).filter((each) => /GET .*(secrets|configmaps)/.test(each));
  assert.deepEqual(asked, []);
});
