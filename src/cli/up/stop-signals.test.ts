import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { test } from 'node:test';
import { toldToStop } from './up.ts';

test('stop: a Ctrl-C that npm sends once more is one, and a later one cuts the stop short', async (t) => {
  t.mock.timers.enable({ apis: ['Date'] });
  const signals = new EventEmitter();
  const urgent = t.mock.fn();
  const told = toldToStop(urgent, signals);

  signals.emit('SIGINT', 'SIGINT');
  t.mock.timers.tick(1_000);
  signals.emit('SIGINT', 'SIGINT');
  assert.equal(await told, 'SIGINT');
  assert.equal(urgent.mock.callCount(), 0);

  t.mock.timers.tick(1);
  signals.emit('SIGTERM', 'SIGTERM');
  assert.equal(urgent.mock.callCount(), 1);
});

test('stop: a terminal or a parent that goes while the stop is under way does not cut it short', async (t) => {
  t.mock.timers.enable({ apis: ['Date'] });
  const signals = new EventEmitter();
  const urgent = t.mock.fn();
  const told = toldToStop(urgent, signals);

  signals.emit('SIGTERM', 'SIGTERM');
  t.mock.timers.tick(5_000);
  signals.emit('SIGHUP', 'SIGHUP');
  assert.equal(await told, 'SIGTERM');
  assert.equal(urgent.mock.callCount(), 0);
});
