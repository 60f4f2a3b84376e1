import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { isFinal } from '../../model/job/index.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import { openTarget, type TestTarget } from './target.fixture.ts';

const CPU = 2000;
const JOBS = ['cow-1', 'cow-2', 'cow-3'];

const step = fc.oneof(
  fc.record({
    do: fc.constant('offer' as const),
    job: fc.constantFrom(...JOBS),
    epoch: fc.integer({ min: 1, max: 2 }),
    pinned: fc.boolean(),
    event: fc.constantFrom('moo', 'moo', 'muh'),
  }),
  fc.record({ do: fc.constantFrom('silence' as const, 'speak' as const, 'fence' as const, 'restart' as const) }),
  fc.record({
    do: fc.constantFrom('succeed' as const, 'fail' as const, 'stop' as const, 'cancel' as const),
    which: fc.nat(),
  }),
  fc.record({ do: fc.constant('later' as const), ms: fc.constantFrom(31_000, 200_000) }),
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

test('target (property): in the end every job has ended, nothing ran twice, and all capacity is free', async (t) => {
  const property = fc.asyncProperty(fc.array(step, { maxLength: 24 }), async (steps) => {
    const cleaning: (() => unknown)[] = [];
    const context = { after: (clean: () => unknown) => void cleaning.unshift(clean) } as typeof t;
    let target = await openTarget(context, { cpu: CPU, faster: 20_000 });
    try {
      for (const each of steps) target = await take(each, target);
      target = await settle(target);
      await assertAtRest(target);
    } finally {
      target.end();
      for (const clean of cleaning) await clean();
    }
  });
  await fc.assert(property, { numRuns: 5 * Number(process.env['OSCAR_TEST_ROUNDS'] ?? 3), endOnFailure: true });
});

async function take(each: Step, target: TestTarget): Promise<TestTarget> {
  assert.ok(target.capacity.taken <= CPU);
  const { origin, runner } = target;
  const names = [...runner.attempts.keys()];
  const name = 'which' in each ? (names[each.which % Math.max(1, names.length)] ?? 'calf-none') : '';
  const alive = runner.attempts.get(name)?.seen.phase === 'running';
  switch (each.do) {
    case 'offer': {
      const job = { service: 'cow', id: each.job };
      const { epoch, pinned } = each;
      await target.offer({ job, epoch, pinned, event: Buffer.from(each.event) }).catch(expected);
      break;
    }
    case 'silence':
      origin.silent = true;
      break;
    case 'speak':
      origin.silent = false;
      origin.fences = false;
      break;
    case 'fence':
      origin.fences = true;
      break;
    case 'restart':
      return target.restarted();
    case 'succeed':
      if (alive) runner.end(name, { manifest: 'm' });
      break;
    case 'fail':
      if (alive) runner.end(name, { outcome: 'failed', reason: 'ScriptFailed', message: 'no', exitCode: 1 });
      break;
    case 'stop':
      await target.taken.stop(target.key(name), target.from);
      break;
    case 'cancel':
      await target.dispatcher.cancel(target.key(name), 'cancelled');
      break;
    case 'later':
      target.ahead += each.ms;
  }
  return target;
}

const REFUSALS = ['offer-no-room', 'payload-differs', 'fenced', 'origin-silent'];

function expected(error: unknown): void {
  assert.ok(error instanceof Error && 'code' in error && REFUSALS.includes(String(error.code)), String(error));
}

/** The origin answers again, and every script ends. */
async function settle(target: TestTarget): Promise<TestTarget> {
  target.origin.silent = false;
  target.origin.fences = false;
  await eventually(async () => {
    for (const [name, { seen }] of target.runner.attempts) {
      if (seen.phase !== 'ended') target.runner.end(name, { manifest: 'm' });
    }
    for await (const record of target.cluster.jobs.unfinished()) assert.fail(`${record.id} is ${record.state}`);
  }, 20_000);
  return target;
}

async function assertAtRest({ cluster, capacity, dispatcher, runner, origin }: TestTarget): Promise<void> {
  await eventually(() => assert.deepEqual([capacity.taken, dispatcher.waiting, dispatcher.running], [0, 0, 0]));
  const { items } = await cluster.jobs.list({ service: 'calf', limit: 100 });
  for (const { id, state, attempts, taken } of items) {
    assert.ok(isFinal(state));
    assert.ok(attempts.length <= 1, `${id} was begun ${attempts.length} times`);
    assert.ok(attempts.every(({ name }) => runner.attempts.has(name) || state !== 'succeeded'));
    const acknowledged = origin.reports.filter(
      ({ attempt, report }) =>
        attempt.job.id === taken?.job.id && attempt.epoch === taken.epoch && report.state === 'succeeded',
    );
    assert.equal(acknowledged.length > 0, state === 'succeeded', `${id} is ${state}`);
  }
}
