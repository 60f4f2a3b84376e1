import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually, Outside, service } from '../support/jobs.ts';
import { startTestManager } from '../support/manager.ts';
import { startPeople } from '../support/people.ts';

/** Unanswered requests that one caller may have here. */
const MOST = 20;

test('flood: of one user is rejected above a limit, with Retry-After, and keeps out nobody else', async () => {
  await using stack = new AsyncDisposableStack();
  const people = await startPeople();
  stack.defer(() => people.issuer.stop());
  const eventsToken = 'token-of-the-store';
  const manager = stack.use(
    await startTestManager({
      ...people.settings,
      OSCAR_MAX_CONNECTIONS_PER_ADDRESS: String(MOST),
      // All users come from one address, as behind an ingress.
      OSCAR_TRUSTED_PROXIES: '127.0.0.0/8',
      OSCAR_EVENTS_TOKEN: eventsToken,
    }),
  );
  const outside = new Outside(manager.url);
  await outside.create(people.alice, service('watched', 'true', { input: [], output: [] }));
  await outside.create(people.bob, service('quick', 'cat "$INPUT_FILE_PATH" >"$TMP_OUTPUT_DIR/out"', { cpu: '0.1' }));

  const send = (path: string, as: string, init: RequestInit = {}) =>
    fetch(`${manager.url}${path}`, { ...init, headers: { authorization: as } });
  const { cursor } = (await (await send('/system/jobs/watched', people.alice)).json()) as { cursor: string };
  const waiting = `/system/jobs/watched?since=${encodeURIComponent(cursor)}&wait=60`;
  const flood = Array.from({ length: 3 * MOST }, () => send(waiting, people.alice));
  const rejected: Response[] = [];
  for (const each of flood) void each.then((response) => response.status === 503 && rejected.push(response));
  await eventually(() => assert.equal(rejected.length, 2 * MOST));
  assert.ok(rejected.every((response) => Number(response.headers.get('retry-after')) > 0));

  for (let i = 0; i < 10; i++) {
    const asked = [
      send('/system/services', people.bob),
      send('/job/quick', people.bob, { method: 'POST', body: 'x' }),
      send('/system/events/storage', `Bearer ${eventsToken}`, { method: 'POST', body: '{"Records":[]}' }),
      send('/health', ''),
    ];
    const statuses = (await Promise.all(asked)).map(({ status }) => status);
    assert.ok(!statuses.some((status) => status >= 500), `round ${i}: ${statuses.join(', ')}`);
    assert.deepEqual([statuses[0], statuses[1], statuses[3]], [200, 201, 200]);
  }
  // A file of another user becomes a job, and the job ends, while the flood lasts.
  await outside.put(people.bob, 'quick/in/a', 'through');
  await eventually(async () => assert.equal(await outside.get(people.bob, 'quick/out/out'), 'through'));

  await outside.submit(people.alice, 'watched', 'x');
  const answers = await Promise.all(flood);
  assert.equal(answers.filter(({ status }) => status === 200).length, MOST, 'what was accepted is answered');
});
