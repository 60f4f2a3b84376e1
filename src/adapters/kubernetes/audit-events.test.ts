import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import type { AuditEvent } from '../../ports/index.ts';
import { KubernetesAuditEvents } from './audit-events.ts';

interface Created {
  readonly reason: string;
  readonly message: string;
  readonly type: string;
  readonly count: number;
}

/** An API that answers when the test lets it. */
function open(t: TestContext) {
  t.mock.timers.enable({ apis: ['setInterval', 'Date'], now: 1_000_000 });
  const created: Created[] = [];
  const problems: unknown[] = [];
  let answer: () => Promise<void> = async () => undefined;
  const api = {
    post: async (_kind: unknown, _namespace: unknown, body: unknown) => {
      await answer();
      created.push(body as Created);
      return body as never;
    },
  };
  const events = new KubernetesAuditEvents({ api, namespace: 'oscar', report: (problem) => problems.push(problem) });
  t.after(() => events.close());
  const settle = async () => {
    for (let i = 0; i < 200; i++) await turn();
  };
  const pass = async (ms: number) => {
    t.mock.timers.tick(ms);
    await settle();
  };
  const answerWith = (next: typeof answer) => {
    answer = next;
  };
  return { events, created, problems, settle, pass, answerWith };
}

const refused = (object: string): AuditEvent => ({
  action: 'service.delete',
  actor: 'user:mallory',
  object,
  outcome: 'refused',
  reason: 'forbidden',
  request: 'r-1',
  address: '192.0.2.1',
});

test('audit events: an act is an Event with actor, object, outcome and request', async (t) => {
  const { events, created, settle } = open(t);
  events.record(refused('service/x'));
  events.record({ action: 'worker.take-over', actor: 'user:alice', outcome: 'success' });
  await settle();
  assert.deepEqual(
    created.map(({ reason, message, type, count }) => ({ reason, message, type, count })),
    [
      {
        reason: 'ServiceDelete',
        message: 'user:mallory: service.delete service/x: refused (forbidden), request r-1, address 192.0.2.1',
        type: 'Warning',
        count: 1,
      },
      { reason: 'WorkerTakeOver', message: 'user:alice: worker.take-over: success', type: 'Normal', count: 1 },
    ],
  );
});

test('audit events: acts of every job are left out, unless they were refused', async (t) => {
  const { events, created, settle } = open(t);
  events.record({ action: 'service.invoke', actor: 'user:alice', outcome: 'success' });
  events.record({ action: 'job.report', actor: 'member:b/x', outcome: 'refused', reason: 'fenced' });
  await settle();
  assert.deepEqual(
    created.map(({ reason }) => reason),
    ['JobReport'],
  );
});

test('audit events: a flood is bounded, equal acts are counted together, and what is left out is counted', async (t) => {
  const { events, created, settle, pass } = open(t);
  for (let i = 0; i < 5_000; i++) events.record(refused(`service/${i}`));
  await settle();
  assert.equal(created.length, 25);
  for (let i = 0; i < 50; i++) events.record(refused('service/1000'));
  for (let second = 0; second < 1_100; second++) await pass(1_000);
  const acts = created.reduce((sum, { count }) => sum + count, 0);
  assert.equal(acts, 5_050);
  assert.ok(created.length <= 25 + 1_100);
  const lost = created.filter(({ reason }) => reason === 'AuditLost');
  assert.ok(lost.length > 0 && lost.every(({ count }) => count > 0));
  assert.equal(created.find(({ message }) => message.includes('service/1000:'))?.count, 51);
});

test('audit events: an API server that fails or hangs holds up nobody, and is asked again later', async (t) => {
  const { events, created, problems, settle, pass, answerWith } = open(t);
  answerWith(() => Promise.reject(new Error('forbidden')));
  for (const name of ['a', 'b', 'c']) events.record(refused(name));
  await settle();
  assert.equal(problems.length, 1, 'one request, not one for each act');
  answerWith(async () => undefined);
  await pass(29_000);
  assert.equal(created.length, 0);
  await pass(2_000);
  assert.equal(
    created.reduce((sum, { count }) => sum + count, 0),
    3,
  );

  answerWith(() => new Promise(() => undefined));
  for (let i = 0; i < 3_000; i++) events.record(refused(`service/${i}`));
  await settle();
});
