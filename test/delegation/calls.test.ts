import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  delegating,
  expectOneCommit,
  expectStagingEmpty,
  inState,
  offersTo,
  placeOf,
  startDelegation,
  storyOf,
} from '../support/delegation.ts';
import { type Clusters, expectStatus, member } from '../support/federation.ts';
import { eventually, Meeting } from '../support/jobs.ts';

/** Synchronous calls that the coordinator has no room for. */
let them: Clusters;
const meeting = new Meeting();
before(async () => {
  const settings = { OSCAR_LEASE_SECONDS: '3', OSCAR_LEASE_GRACE_SECONDS: '1', OSCAR_RECONCILE_INTERVAL: '3600' };
  them = await startDelegation({ settings, own: { 'oscar-cluster': { OSCAR_LOCAL_CPU: '1' } } });
});
after(async () => {
  meeting[Symbol.dispose]();
  await them[Symbol.asyncDispose]();
});

/** A federation whose coordinator has no room for its jobs, because another script occupies it until `release`. */
async function crowded(name: string, script: string, members: 'a' | 'ab' = 'a') {
  const { origin, a, b, people } = them;
  const targets = members === 'a' ? [a] : [a, b];
  await delegating(
    them,
    name,
    targets.map((each) => member(each, `${name}-${each.id.at(-1)}`)),
    { script, cpu: '1', federation: { delegate_when: 'saturated', delegation: 'static' } },
  );
  const hog = `${name}-hog`;
  const body = {
    name: hog,
    image: 'busybox',
    cpu: '1',
    memory: '64Mi',
    script: `#!/bin/sh\n${meeting.say(hog, 'runs')}\n${meeting.wait(`${hog}-end`)}\n`,
  };
  expectStatus(await origin.call('POST', '/system/services', { as: people.alice, body }), 201);
  await origin.outside.submit(people.alice, hog, '');
  await meeting.heard(hog);
  return { release: () => meeting.letGo(`${hog}-end`) };
}

const run = (name: string, body: string) => them.origin.call('POST', `/run/${name}`, { as: them.people.alice, body });

test('call: without room at the coordinator it runs at a member, and the answer is the same as here', async () => {
  const { origin, people } = them;
  const script = [
    'case "$(cat "$INPUT_FILE_PATH")" in',
    'one) printf "result" >"$TMP_OUTPUT_DIR/r-$JOB_UUID" ;;',
    'fails) echo "it says why"; exit 3 ;;',
    '*) echo "only printed" ;;',
    'esac',
  ].join('\n');
  const { release } = await crowded('call', script);
  const answers = async () => {
    const each = await Promise.all(['one', 'printed', 'fails'].map((event) => run('call', event)));
    return each.map(({ status, text, headers }) => [status, text, headers.get('x-oscar-exit-code')]);
  };
  const expected = [
    [200, Buffer.from('result').toString('base64'), '0'],
    [200, 'only printed\n', '0'],
    [500, 'it says why\n', '3'],
  ];
  assert.deepEqual(await answers(), expected);
  const jobs = await origin.outside.jobs(people.alice, 'call');
  for (const job of jobs) assert.equal(placeOf(job), 'oscar-cluster-a', storyOf(job));
  for (const job of jobs.filter(({ state }) => state === 'succeeded')) expectOneCommit(job);
  const results = (await origin.outside.keys(people.alice, 'call')).filter((key) => key.startsWith('out/r-'));
  assert.equal(results.length, 1, 'the output is written once, to the output of the service');
  await expectStagingEmpty(origin, 'call');
  release();
  // With room here it runs here.
  await eventually(async () => {
    const here = expectStatus(await run('call', 'one'), 200);
    assert.equal(here.text, Buffer.from('result').toString('base64'));
    const job = await origin.outside.job(people.alice, 'call', here.headers.get('x-oscar-job-id') ?? '');
    assert.equal(placeOf(job), 'oscar-cluster', storyOf(job));
  });
});

test('call: a caller who leaves ends the script at the member', async () => {
  const { origin, people } = them;
  const script = `${meeting.say('left-started', '$JOB_UUID')}\ntrap '${meeting.say('left-ended', 'ended')}; exit 1' TERM\n${meeting.wait('left-never')}`;
  const { release } = await crowded('left', script);
  const leave = new AbortController();
  const headers = { authorization: people.alice };
  const call = fetch(`${origin.manager.url}/run/left`, { method: 'POST', headers, body: 'x', signal: leave.signal });
  const id = await meeting.heard('left-started');
  leave.abort();
  await assert.rejects(call);
  const job = await inState(origin, people.alice, 'left', id, 'cancelled');
  assert.match(storyOf(job), /delegated \(Permitted at oscar-cluster-a/);
  assert.equal(await meeting.heard('left-ended'), 'ended');
  release();
});

test('call: a member that is cut off in the middle loses the call to another one, and the caller gets one answer', async () => {
  const { origin, a, b, people } = them;
  const wait = meeting.wait('cut-go');
  const script = `${meeting.say('cut-$JOB_UUID', 'x')}\n${meeting.say('cut-started', '$JOB_UUID')}\n${wait}\nprintf done >"$TMP_OUTPUT_DIR/r-$JOB_UUID"`;
  const { release } = await crowded('cut', script, 'ab');
  const call = run('cut', 'x');
  const id = await meeting.heard('cut-started');
  const first = await inState(origin, people.alice, 'cut', id, 'delegated');
  const [lost, other] = first.timeline.at(-1)?.place === a.id ? [a, b] : [b, a];
  // The member hears nothing from the origin and the origin nothing from the member.
  await lost.wire.cut();
  origin.wire.interfere((seen, response, passOn) =>
    String(seen.headers['x-oscar-member']).includes(lost.id) ? void response.destroy() : passOn(),
  );
  try {
    await eventually(() => assert.ok(offersTo(other, `cut-${other.id.at(-1)}`).length > 0), 60_000);
    meeting.letGo('cut-go');
    const answer = expectStatus(await call, 200);
    assert.equal(answer.text, Buffer.from('done').toString('base64'));
    const job = await origin.outside.job(people.alice, 'cut', id);
    assert.equal(placeOf(job), other.id, storyOf(job));
    expectOneCommit(job);
  } finally {
    origin.wire.interfere();
    await lost.wire.mend();
    release();
  }
  const results = (await origin.outside.keys(people.alice, 'cut')).filter((key) => key.startsWith('out/r-'));
  assert.equal(results.length, 1);
});
