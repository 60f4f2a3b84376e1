import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { test } from 'node:test';
import { waitForStopSignal } from './stop-signals.ts';

test('stop: a Ctrl-C that npm forwards is ignored, and a later signal is urgent', async (t) => {
  t.mock.timers.enable({ apis: ['Date'] });
  const signals = new EventEmitter();
  const urgent = t.mock.fn();
  const stopped = waitForStopSignal(urgent, signals);

  signals.emit('SIGINT', 'SIGINT');
  t.mock.timers.tick(1_000);
  signals.emit('SIGINT', 'SIGINT');
  assert.equal(await stopped, 'SIGINT');
  assert.equal(urgent.mock.callCount(), 0);

  t.mock.timers.tick(1);
  signals.emit('SIGTERM', 'SIGTERM');
  assert.equal(urgent.mock.callCount(), 1);
});

test('stop: SIGHUP during a stop is not urgent', async (t) => {
  t.mock.timers.enable({ apis: ['Date'] });
  const signals = new EventEmitter();
  const urgent = t.mock.fn();
  const stopped = waitForStopSignal(urgent, signals);

  signals.emit('SIGTERM', 'SIGTERM');
  t.mock.timers.tick(5_000);
  signals.emit('SIGHUP', 'SIGHUP');
  assert.equal(await stopped, 'SIGTERM');
  assert.equal(urgent.mock.callCount(), 0);
});
