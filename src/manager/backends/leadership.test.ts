import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../../ports/conformance/eventually.ts';
import { alwaysLeading, type Duty, leadingBy } from './leadership.ts';

/** A vote that the test decides. */
function scene() {
  const log: string[] = [];
  let lead: (signal: AbortSignal) => Promise<void> = async () => {};
  let term: { over: AbortController; work: Promise<void> } | undefined;
  const resign = async () => {
    term?.over.abort();
    await term?.work.catch(() => log.push('failed'));
    term = undefined;
  };
  const leadership = leadingBy((onLead) => {
    lead = onLead;
    return { start: () => log.push('candidate'), stop: resign };
  });
  const duty =
    (name: string): Duty =>
    async ({ signal, defer }) => {
      log.push(`begin ${name}`);
      defer(() => log.push(`end ${name}, ${signal.aborted}`));
    };
  const elect = () => {
    const over = new AbortController();
    const work = lead(over.signal);
    term = { over, work };
    return work;
  };
  return { log, leadership, duty, elect, resign };
}

test('leadership: a single manager starts at once, and ends in reverse order', async () => {
  const { log, duty } = scene();
  const leadership = alwaysLeading();
  await leadership.first(duty('one'));
  assert.deepEqual(log, ['begin one']);
  await leadership.begin(duty('two'));
  await leadership.end();
  assert.deepEqual(log, ['begin one', 'begin two', 'end two, true', 'end one, true']);
});

test('leadership: one of several starts when it is elected, and again in each term', async () => {
  const { log, leadership, duty, elect, resign } = scene();
  await leadership.first(duty('one'));
  await leadership.begin(duty('two'));
  assert.deepEqual(log, ['candidate']);
  const term = ['begin one', 'begin two', 'end two, true', 'end one, true'];
  for (let times = 1; times <= 2; times++) {
    void elect();
    await eventually(() => assert.equal(log.at(-1), 'begin two'));
    await resign();
    assert.deepEqual(log.splice(1), term);
  }
  await leadership.end();
});

test('leadership: duties that have started end if a later one fails', async () => {
  const { log, leadership, duty, elect, resign } = scene();
  await leadership.first(duty('one'));
  await leadership.begin(async () => Promise.reject(new Error('the store is away')));
  await assert.rejects(elect(), /the store is away/);
  await resign();
  assert.deepEqual(log.slice(1), ['begin one', 'end one, true', 'failed']);
});

test('leadership: no duty starts after the end of the term', async () => {
  const { log, leadership, duty, elect, resign } = scene();
  const { promise: slow, resolve } = Promise.withResolvers<void>();
  await leadership.first(() => slow);
  await leadership.begin(duty('two'));
  void elect();
  const over = resign();
  resolve();
  await over;
  assert.deepEqual(log, ['candidate']);
});
