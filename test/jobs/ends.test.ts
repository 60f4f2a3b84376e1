import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { eventually, findHostPid, isThere, LOG_BEGINS, Meeting, Outside, reasonOf, service } from '../support/jobs.ts';
import { ADMIN, startTestManager, type TestManager } from '../support/manager.ts';

const meeting = new Meeting();
let manager: TestManager;
let outside: Outside;
before(async () => {
  manager = await startTestManager({ OSCAR_LOCAL_CPU: '4', OSCAR_LOCAL_MEMORY: '4Gi' });
  outside = new Outside(manager.url);
});
after(async () => {
  await manager[Symbol.asyncDispose]();
  meeting[Symbol.dispose]();
});

/** A script that prints its pids, has a child and never ends. */
const ENDLESS = `
  echo something >"$TMP_OUTPUT_DIR/x"
  sleep 1000 &
  echo begun
  ${meeting.say('pids-$JOB_UUID', '$$ $!')}
  wait`;

/** Creates a service and a job, and waits until its script runs. Returns the job and its processes. */
async function running(name: string, more = {}): Promise<{ id: string; pids: number[] }> {
  const token = await outside.create(ADMIN, service(name, ENDLESS, more));
  const id = await outside.submit(token, name, 'x');
  const pids = (await meeting.heard(`pids-${id}`)).split(' ').map((pid) => findHostPid(Number(pid), `JOB_UUID=${id}`));
  assert.ok(pids.every(isThere));
  // A job that is stopped before the manager has seen it running may have an empty log.
  await eventually(async () => assert.ok((await outside.job(ADMIN, name, id)).started_at));
  return { id, pids };
}

const gone = (pids: readonly number[]) => eventually(() => assert.deepEqual(pids.filter(isThere), []));

describe('running job', () => {
  test('is cancelled: its processes are stopped, nothing is uploaded, and a second cancel is rejected', async () => {
    const { id, pids } = await running('cancelled');
    const cancel = () => outside.call('DELETE', `/system/jobs/cancelled/${id}`, { as: ADMIN });
    assert.equal((await cancel()).status, 202);
    const job = await outside.ended('cancelled', id);
    assert.deepEqual([job.state, job.phase, reasonOf(job)], ['cancelled', 'Failed', 'Cancelled']);
    assert.equal(job.message, 'it was cancelled');
    await gone(pids);
    assert.deepEqual(await outside.keys(ADMIN, 'cancelled'), []);
    const again = await cancel();
    assert.equal(again.status, 409);
    assert.match(again.text, /it is cancelled/);
    assert.match(await outside.log('cancelled', id), /begun\n/, 'its log stays');
  });

  test('is removed with its log and its processes', async () => {
    const { id, pids } = await running('removed');
    assert.equal((await outside.call('DELETE', `/system/logs/removed/${id}`, { as: ADMIN })).status, 204);
    for (const path of [`/system/jobs/removed/${id}`, `/system/logs/removed/${id}`]) {
      assert.equal((await outside.call('GET', path, { as: ADMIN })).status, 404);
    }
    assert.deepEqual(await outside.jobs(ADMIN, 'removed'), []);
    await gone(pids);
    assert.deepEqual(await outside.keys(ADMIN, 'removed'), []);
  });

  test('is removed with its service, as are queued jobs, and does not reappear with a new service of that name', async () => {
    const { pids } = await running('deleted', { cpu: '3' });
    const { json } = await outside.call('GET', '/system/services/deleted', { as: ADMIN });
    await outside.submit(`Bearer ${(json() as { token: string }).token}`, 'deleted', 'y');
    assert.equal((await outside.call('DELETE', '/system/services/deleted', { as: ADMIN })).status, 204);
    await gone(pids);
    assert.equal((await outside.call('GET', '/system/jobs/deleted', { as: ADMIN })).status, 404);
    await outside.create(ADMIN, service('deleted', 'echo new'));
    assert.deepEqual(await outside.jobs(ADMIN, 'deleted'), []);
    assert.deepEqual(await outside.keys(ADMIN, 'deleted'), []);
  });
});

describe('queued job', () => {
  test('is cancelled at once and has no log, while the running job continues', async () => {
    const { id: first } = await running('full', { cpu: '4' });
    const { json } = await outside.call('GET', '/system/services/full', { as: ADMIN });
    const token = `Bearer ${(json() as { token: string }).token}`;
    const second = await outside.submit(token, 'full', 'y');
    const waiting = await outside.job(ADMIN, 'full', second);
    assert.deepEqual([waiting.state, waiting.phase, waiting.message], ['queued', 'Pending', 'waits for room']);
    assert.equal((await outside.call('DELETE', `/system/jobs/full/${second}`, { as: ADMIN })).status, 202);
    assert.equal((await outside.job(ADMIN, 'full', second)).state, 'cancelled');
    assert.equal(await outside.log('full', second), '');
    assert.equal((await outside.job(ADMIN, 'full', first)).state, 'running');
    await outside.call('DELETE', '/system/logs/full?all=true', { as: ADMIN });
    assert.deepEqual(await outside.jobs(ADMIN, 'full'), []);
  });

  test('that no node could ever run shows the reason', async () => {
    const token = await outside.create(ADMIN, service('huge', 'true', { cpu: '64' }));
    const id = await outside.submit(token, 'huge', 'x');
    await eventually(async () => assert.match((await outside.job(ADMIN, 'huge', id)).message, /64|cpu|CPU/));
    assert.equal((await outside.call('POST', '/run/huge', { as: token, body: 'x' })).status, 503);
    assert.equal((await outside.call('DELETE', `/system/jobs/huge/${id}`, { as: ADMIN })).status, 202);
  });
});

describe('log of a job', () => {
  test('has timestamps on request', async () => {
    const token = await outside.create(ADMIN, service('timed', 'echo one; printf two'));
    const id = await outside.submit(token, 'timed', 'x');
    await outside.ended('timed', id);
    const time = String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z`;
    const begins = LOG_BEGINS && `${time} ${LOG_BEGINS}`;
    const expected = new RegExp(`^${begins}${time} one\n${time} two$`);
    assert.match(await outside.log('timed', id, '?timestamps=true'), expected);
  });

  test('can be followed until the script ends', async () => {
    const token = await outside.create(ADMIN, service('followed', `echo one; ${meeting.wait('on')}; echo two`));
    const id = await outside.submit(token, 'followed', 'x');
    const answer = await fetch(`${manager.url}/system/logs/followed/${id}?follow=true`, {
      headers: { authorization: ADMIN },
    });
    let text = '';
    for await (const piece of answer.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      text += piece;
      if (!text.endsWith('one\n')) continue;
      assert.equal((await outside.job(ADMIN, 'followed', id)).state, 'running');
      meeting.letGo('on');
    }
    assert.match(text, /one\ntwo\n$/);
    assert.equal((await outside.ended('followed', id)).state, 'succeeded');
  });
});
