import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  copying,
  delegating,
  endedWell,
  expectStagingEmpty,
  onlySucceeded,
  placeOf,
  startDelegation,
  statesOf,
  storyOf,
} from '../support/delegation.ts';
import {
  type Clusters,
  expectStatus,
  member,
  services,
  states,
  status,
  type TestCluster,
} from '../support/federation.ts';
import { eventually, findHostPid, isThere, Meeting } from '../support/jobs.ts';
import { startWire, type Wire } from '../support/wire.ts';

let them: Clusters;
let collector: Wire;
const meeting = new Meeting();
before(async () => {
  collector = await startWire();
  collector.interfere((_, response) => void response.writeHead(200).end('{}'));
  them = await startDelegation({
    settings: { OSCAR_RECONCILE_INTERVAL: '1', OTEL_EXPORTER_OTLP_ENDPOINT: collector.url },
  });
});
after(async () => {
  meeting[Symbol.dispose]();
  await them[Symbol.asyncDispose]();
  await collector[Symbol.asyncDispose]();
});

/** Creates a federation of a and b, and a job whose script waits at a. Resolves to the job's id and the script's pid. */
async function running(name: string): Promise<{ id: string; pid: number }> {
  const { origin, a, b, people } = them;
  const script = `${copying()}; echo begun; ${meeting.say(`${name}-$OSCAR_SERVICE_NAME`, '$$')}; ${meeting.wait(`${name}-go`)}; echo over`;
  await delegating(them, name, [member(a, `${name}-a`), member(b, `${name}-b`, { priority: 1 })], { script });
  await origin.outside.put(people.alice, `${name}/in/x`, 'x');
  const pid = findHostPid(Number(await meeting.heard(`${name}-${name}-a`)), `OSCAR_SERVICE_NAME=${name}-a`);
  const id = await eventually(async () => {
    const [job] = await origin.outside.jobs(people.alice, name);
    assert.equal(job?.message, 'the script runs');
    return job.id;
  });
  assert.ok(isThere(pid));
  return { id, pid };
}

const outputs = async (name: string) =>
  (await them.origin.outside.keys(them.people.alice, name)).filter((key) => key.startsWith('out/'));

const ended = (pid: number) => eventually(() => assert.ok(!isThere(pid), 'the script still runs'));

/** A job in `/system/logs`, which old clients read. */
async function listed(at: TestCluster, as: string, name: string, id: string) {
  const { json } = expectStatus(await at.call('GET', `/system/logs/${name}`, { as }), 200);
  return (json() as { jobs: Record<string, { status: string; creation_time?: string }> }).jobs[id];
}

describe('views: the origin shows a delegated job like any other (F37)', () => {
  test('views: state, place, times, exit code, decisions and log, while the job runs and afterwards', async () => {
    const { origin, a, b, people } = them;
    const { id } = await running('seen');
    assert.equal((await listed(origin, people.alice, 'seen', id))?.status, 'Running');
    const now = await origin.outside.job(people.alice, 'seen', id);
    assert.deepEqual([now.state, now.phase, placeOf(now)], ['delegated', 'Running', a.id]);

    const path = `/system/logs/seen/${id}`;
    assert.match((await origin.call('GET', path, { as: people.alice })).text, /^begun\n$/m);
    const followed = await fetch(`${origin.manager.url}${path}?follow=true`, {
      headers: { authorization: people.alice },
    });
    const reader = followed.body?.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    while (!text.includes('begun\n')) text += (await reader?.read())?.value ?? assert.fail(`it ended: ${text}`);
    assert.ok(!text.includes('over'));
    meeting.letGo('seen-go');
    for (let more = await reader?.read(); more && !more.done; more = await reader?.read()) text += more.value;
    assert.match(text, /begun\nover\n$/);

    const job = await endedWell(origin, people.alice, 'seen', id);
    assert.equal((await listed(origin, people.alice, 'seen', id))?.status, 'Succeeded');
    assert.deepEqual([job.exit_code, job.attempts.length, job.attempts[0]?.epoch], [0, 1, 1]);
    assert.deepEqual(statesOf(job), [
      'accepted Accepted',
      'queued Waiting',
      'offering Offered',
      'delegated Permitted',
      'committing Finished',
      'succeeded Completed',
    ]);
    const [decision] = job.decisions;
    assert.deepEqual([decision?.policy, decision?.chosen], ['static', `${a.id}/seen-a`]);
    assert.deepEqual(
      decision?.candidates.map((each) => each.member),
      [`${a.id}/seen-a`, `${b.id}/seen-b`, `${origin.id}/seen`],
    );
    assert.match((await origin.call('GET', path, { as: people.alice })).text, /begun\nover\n$/);
    assert.match(
      (await origin.call('GET', `${path}?timestamps=true`, { as: people.alice })).text,
      /^\d{4}-.*Z begun$/m,
    );
    assert.deepEqual(await outputs('seen'), ['out/x']);
  });

  test('views: at the member, other users cannot see or delete the attempt', async () => {
    const { origin, a, people } = them;
    const { id } = await running('apart');
    const { attempts } = await origin.outside.job(people.alice, 'apart', id);
    const attempt = attempts[0]?.name ?? '';
    expectStatus(await a.call('GET', `/system/jobs/apart-a/${attempt}`, { as: people.bob }), 404);
    expectStatus(await a.call('GET', `/system/logs/apart-a/${attempt}`, { as: people.bob }), 404);
    expectStatus(await a.call('DELETE', `/system/jobs/apart-a/${attempt}`, { as: people.bob }), 404);
    meeting.letGo('apart-go');
    await endedWell(origin, people.alice, 'apart', id);
  });

  test('metrics: offers, decisions and commits are counted', async () => {
    const { origin, people, a } = them;
    await delegating(them, 'metered', [member(a, 'metered')], { script: copying() });
    await origin.outside.put(people.alice, 'metered/in/x', 'x');
    await onlySucceeded(origin, people.alice, 'metered');
    const series = [
      /^oscar_offers_seconds_count\{.*outcome="taken".*\} [1-9]/m,
      /^oscar_delegation_decision_seconds_count [1-9]/m,
      /^oscar_commits_seconds_count\{.*outcome="succeeded".*\} [1-9]/m,
      /^oscar_leases_expired_total 0/m,
      /^oscar_fenced_total \d/m,
    ];
    // The manager counts a step after it, so the first read may be too early.
    await eventually(async () => {
      const { text } = expectStatus(await origin.call('GET', '/metrics', { as: origin.admin }), 200);
      for (const each of series) assert.match(text, each);
    });
  });

  test('traces: one trace has the steps of both clusters', async () => {
    const { origin, people, a } = them;
    await delegating(them, 'traced', [member(a, 'traced-a')], { script: copying() });
    await origin.outside.put(people.alice, 'traced/in/x', 'x');
    const { id } = await onlySucceeded(origin, people.alice, 'traced');
    const spans = await eventually(() => {
      const found = collector.seen.flatMap(({ body }) => spansIn(body)).filter((span) => span.job === id);
      assert.ok(
        found.some(({ name }) => name === 'job of traced') && found.some(({ name }) => name.startsWith('attempt 1')),
      );
      return found;
    });
    assert.equal(new Set(spans.map(({ traceId }) => traceId)).size, 1);
    assert.deepEqual(new Set(spans.map(({ cluster }) => cluster)), new Set([origin.id, a.id]));
    for (const step of ['offer', 'delegate', 'commit', 'run'])
      assert.ok(
        spans.some(({ name }) => name === step),
        step,
      );
    const offer = a.wire.seen.find(({ path, method }) => method === 'POST' && path === '/job/traced-a');
    assert.equal(String(offer?.headers['traceparent']).split('-')[1], spans[0]?.traceId);
  });
});

interface OtlpSpan {
  readonly traceId: string;
  readonly name: string;
  readonly attributes: readonly { readonly key: string; readonly value: { readonly stringValue?: string } }[];
}

function spansIn(body: string) {
  const { resourceSpans } = JSON.parse(body) as { resourceSpans: { scopeSpans: { spans: OtlpSpan[] }[] }[] };
  const spans = resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap((scope) => scope.spans));
  return spans.map(({ traceId, name, attributes }) => {
    const valueOf = (key: string) => attributes.find((each) => each.key === key)?.value.stringValue;
    return { traceId, name, job: valueOf('oscar.job'), cluster: valueOf('oscar.cluster') };
  });
}

describe('cancel, delete: at the origin, of a job that runs at a member', () => {
  test('cancel: the script at the member ends, and no result is written', async () => {
    const { origin, people } = them;
    const { id, pid } = await running('cancelled');
    expectStatus(await origin.call('DELETE', `/system/jobs/cancelled/${id}`, { as: people.bob }), 404);
    expectStatus(await origin.call('DELETE', `/system/jobs/cancelled/${id}`, { as: people.alice }), 202);
    await ended(pid);
    const job = await origin.outside.ended('cancelled', id, people.alice);
    assert.equal(job.state, 'cancelled', storyOf(job));
    assert.deepEqual(await outputs('cancelled'), []);
    await expectStagingEmpty(origin, 'cancelled');
    expectStatus(await origin.call('DELETE', `/system/jobs/cancelled/${id}`, { as: people.alice }), 409);
  });

  test('delete: the script at the member ends, and the job is not found any more', async () => {
    const { origin, people } = them;
    const { id, pid } = await running('erased');
    expectStatus(await origin.call('DELETE', `/system/logs/erased/${id}`, { as: people.alice }), 204);
    await ended(pid);
    await eventually(async () => {
      expectStatus(await origin.call('GET', `/system/jobs/erased/${id}`, { as: people.alice }), 404);
    });
    assert.deepEqual(await outputs('erased'), []);
    await expectStagingEmpty(origin, 'erased');
  });

  test('delete: without its service, the script at the member ends, and staging is empty', async () => {
    const { origin, a, b, people } = them;
    const { pid } = await running('ended');
    expectStatus(await origin.call('DELETE', '/system/services/ended', { as: people.alice }), 204);
    await ended(pid);
    await expectStagingEmpty(origin, 'ended');
    await eventually(async () => {
      const left = (await Promise.all([origin, a, b].map(services))).flat().filter((name) => name.startsWith('ended'));
      assert.deepEqual(left, []);
    });
  });
});

describe('remove member: while it runs a job', () => {
  const remove = (name: string, query = '') =>
    them.origin.call('DELETE', `/system/federation/${name}${query}`, {
      as: them.people.alice,
      body: { members: [member(them.a, `${name}-a`)] },
    });

  test('remove member: it completes the job, the origin commits the result, and then its service is deleted', async () => {
    const { origin, a, b, people } = them;
    const { id } = await running('drained');
    expectStatus(await remove('drained'), 200);
    assert.deepEqual(states(await status(origin, people.alice, 'drained')), [
      `${b.id}/drained-b: ready`,
      `${a.id}/drained-a: removing`,
    ]);
    assert.ok((await services(a)).includes('drained-a'));
    meeting.letGo('drained-go');
    const job = await endedWell(origin, people.alice, 'drained', id);
    assert.deepEqual([placeOf(job), job.attempts.length], [a.id, 1]);
    assert.deepEqual(await outputs('drained'), ['out/x']);
    await eventually(async () => assert.ok(!(await services(a)).includes('drained-a')));
    await origin.outside.put(people.alice, 'drained/in/y', 'y');
    await eventually(async () => {
      const [last] = await origin.outside.jobs(people.alice, 'drained');
      assert.deepEqual([last?.object?.key, last?.state, last && placeOf(last)], ['in/y', 'succeeded', b.id]);
    });
  });

  test('remove member: with force its script ends at once, and the job runs at another member', async () => {
    const { origin, a, b, people } = them;
    const { id, pid } = await running('forced');
    expectStatus(await remove('forced', '?force=true'), 200);
    await ended(pid);
    await eventually(async () => assert.ok(!(await services(a)).includes('forced-a')));
    meeting.letGo('forced-go');
    const job = await endedWell(origin, people.alice, 'forced', id);
    assert.equal(placeOf(job), b.id, storyOf(job));
    assert.deepEqual(await outputs('forced'), ['out/x']);
    await expectStagingEmpty(origin, 'forced');
  });
});
