import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { UserIdClaims } from './user-ids.ts';

function openClaims(t: TestContext) {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-claims-'));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  const attempt = (name: string) => {
    mkdirSync(join(directory, name));
    return join(directory, name);
  };
  const claims = join(directory, 'claims');
  return { attempt, claims, first: new UserIdClaims(claims), second: new UserIdClaims(claims) };
}

test('user ids: a user id belongs to one attempt, for all managers, until it is released', (t) => {
  const { first, second, attempt } = openClaims(t);
  const [one, two] = [attempt('one'), attempt('two')];
  assert.equal(first.acquire(700, one), true);
  assert.equal(first.acquire(700, one), true);
  assert.equal(second.acquire(700, two), false);
  second.release(700, two);
  assert.equal(second.acquire(700, two), false);
  first.release(700, one);
  assert.equal(second.acquire(700, two), true);
});

test('user ids: the user id of an attempt without a directory is free', (t) => {
  const { first, second, attempt } = openClaims(t);
  const one = attempt('one');
  assert.equal(first.acquire(700, one), true);
  rmSync(one, { recursive: true });
  assert.equal(second.acquire(700, attempt('two')), true);
});

test('user ids: a claim that is being written or taken over is left alone', (t) => {
  const { first, claims, attempt } = openClaims(t);
  mkdirSync(claims);
  writeFileSync(join(claims, '700'), '');
  assert.equal(first.acquire(700, attempt('one')), false);
  writeFileSync(join(claims, '701'), join(claims, 'gone'));
  mkdirSync(join(claims, '701.lock'));
  assert.equal(first.acquire(701, attempt('two')), false);
});
