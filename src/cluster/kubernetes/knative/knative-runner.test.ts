import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import type { Attempt } from '../../attempt.ts';
import { eventually } from '../../eventually.ts';
import { endOf, log } from '../../runner-under-test.ts';
import { ATTEMPT } from '../runner/pod/pods.fixture.ts';
import { asCall, CallPlace } from './calls.fixture.ts';

const attemptOf = (script: string, more: Partial<Attempt> = {}): Attempt =>
  asCall({ ...ATTEMPT, name: `svc-${randomUUID()}`, script, ...more });

/** The API server makes what is to be made next, and is away before it can say so. */
function leaveAfterCreate({ server }: CallPlace): void {
  let away = false;
  server.fault = (method) => {
    if (away) return 'away';
    away = method === 'POST';
    return away ? 'unanswered' : undefined;
  };
}

test('a call whose record was made, and the answer to that lost for long, is called all the same', async (t) => {
  const place = await CallPlace.open(t);
  const runner = place.calls();
  await runner.list();
  leaveAfterCreate(place);
  const attempt = attemptOf('echo called');
  const starting = runner.start(attempt);
  await eventually(() => assert.match(String(place.problems), /create Secret/));
  place.server.fault = () => undefined;
  await starting;
  assert.equal((await endOf(runner, attempt.name)).outcome, 'succeeded');
  assert.match(await log(runner, attempt.name), /^called\n/);
});

test('whoever stands down while the record is made does not call', async (t) => {
  const place = await CallPlace.open(t);
  const runner = place.calls();
  await runner.list();
  leaveAfterCreate(place);
  const attempt = attemptOf('echo ran');
  const starting = runner.start(attempt);
  await eventually(() => assert.match(String(place.problems), /create Secret/));
  runner.standDown();
  place.server.fault = () => undefined;
  await starting;
  assert.equal((await endOf(runner, attempt.name)).reason, 'Lost');
});
