import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { UidClaims } from './uids.ts';

function scene(t: TestContext) {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-claims-'));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  const attempt = (name: string) => {
    mkdirSync(join(directory, name));
    return join(directory, name);
  };
  const claims = join(directory, 'claims');
  return { attempt, claims, first: new UidClaims(claims), second: new UidClaims(claims) };
}

test('a user is for one attempt, whichever manager asks, until it is given back', (t) => {
  const { first, second, attempt } = scene(t);
  const [one, two] = [attempt('one'), attempt('two')];
  assert.equal(first.take(700, one), true);
  assert.equal(first.take(700, one), true);
  assert.equal(second.take(700, two), false);
  second.release(700, two);
  assert.equal(second.take(700, two), false);
  first.release(700, one);
  assert.equal(second.take(700, two), true);
});

test('the user of an attempt that is gone is free', (t) => {
  const { first, second, attempt } = scene(t);
  const one = attempt('one');
  assert.equal(first.take(700, one), true);
  rmSync(one, { recursive: true });
  assert.equal(second.take(700, attempt('two')), true);
});

test('a claim that is just being made, or just being taken over, is left alone', (t) => {
  const { first, claims, attempt } = scene(t);
  mkdirSync(claims);
  writeFileSync(join(claims, '700'), '');
  assert.equal(first.take(700, attempt('one')), false);
  writeFileSync(join(claims, '701'), join(claims, 'gone'));
  mkdirSync(join(claims, '701.lock'));
  assert.equal(first.take(701, attempt('two')), false);
});
