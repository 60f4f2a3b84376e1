import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  allEnded,
  copying,
  delegating,
  delegatingBody,
  endedWell,
  expectStagingEmpty,
  onlySucceeded,
  placeOf,
  startDelegation,
  statesOf,
  storyOf,
} from '../support/delegation.ts';
import { type Clusters, expectStatus, member } from '../support/federation.ts';
import { BOB } from '../support/issuer-users.ts';
import { eventually, keyOf, reasonOf, service } from '../support/jobs.ts';

let them: Clusters;
before(async () => {
  them = await startDelegation();
});
after(() => them[Symbol.asyncDispose]());

const minio = (path: string, more = {}) => ({ storage_provider: 'minio.default', path, ...more });

/** Creates a bucket at the store of c, which is an external storage provider for the origin. */
async function foreign(bucket: string) {
  const { c } = them;
  expectStatus(await c.call('POST', '/system/buckets', { as: c.admin, body: { bucket_name: bucket } }), 201);
  const { endpoint, region, access_key, secret_key } = await c.outside.provider(c.admin);
  return { endpoint, region, access_key, secret_key, verify: false };
}

describe('outputs: of a delegated job', () => {
  test('outputs: each result goes to exactly the outputs whose prefix and suffix match; staging is empty afterwards (F14)', async () => {
    const { origin, a, people } = them;
    const script = `
      mkdir "$TMP_OUTPUT_DIR/pics"
      for name in a.txt b.csv pics/c.png pics/d.txt "e f&g=ü.txt"; do cat "$INPUT_FILE_PATH" >"$TMP_OUTPUT_DIR/$name"; done`;
    await delegating(them, 'many', [member(a, 'many')], {
      script,
      input: [minio('many/one'), minio('many-other/two/deep')],
      output: [
        minio('many/all'),
        minio('many/texts', { suffix: ['.txt', '.csv'] }),
        minio('many-pics', { prefix: ['pics/'] }),
        minio('many/both', { prefix: ['pics/'], suffix: ['.txt'] }),
      ],
    });
    await origin.outside.put(people.alice, 'many-other/two/deep/x', 'of the origin');
    const job = await onlySucceeded(origin, people.alice, 'many');
    assert.equal(placeOf(job), a.id);
    assert.deepEqual(await origin.outside.keys(people.alice, 'many'), [
      'all/a.txt',
      'all/b.csv',
      'all/e f&g=ü.txt',
      'all/pics/c.png',
      'all/pics/d.txt',
      'both/pics/d.txt',
      'many-pics/pics/c.png',
      'many-pics/pics/d.txt',
      'texts/a.txt',
      'texts/b.csv',
      'texts/e f&g=ü.txt',
      'texts/pics/d.txt',
    ]);
    assert.equal(await origin.outside.get(people.alice, 'many/texts/pics/d.txt'), 'of the origin');
    await expectStagingEmpty(origin, 'many');
  });

  test('outputs: each result triggers the next service once', async () => {
    const { origin, a, b, people } = them;
    await delegating(them, 'first', [member(a, 'first')], {
      script: `${copying('-1')}; ${copying('-2')}`,
      output: [minio('second/in')],
    });
    await delegating(them, 'second', [member(b, 'second')], { script: copying() });
    await origin.outside.put(people.alice, 'first/in/x', 'x');
    await onlySucceeded(origin, people.alice, 'first');
    const jobs = await allEnded(origin, people.alice, 'second', 2);
    assert.deepEqual(jobs.map(keyOf).toSorted(), ['in/x-1', 'in/x-2']);
    assert.deepEqual(jobs.map(placeOf), [b.id, b.id]);
    assert.equal(await origin.outside.get(people.alice, 'second/out/x-2'), 'x');
    // A second event of the same file would be a job by now, because a job that was triggered later has ended.
    await origin.outside.put(people.alice, 'second/in/last', 'x');
    await allEnded(origin, people.alice, 'second', 3);
  });

  test('outputs: with `protect`, a member replaces results of the same input only, also those of jobs that ran at the origin', async () => {
    const { origin, a, people } = them;
    const { alice } = people;
    const script = 'cat "$INPUT_FILE_PATH" >"$TMP_OUTPUT_DIR/result"; touch "$TMP_OUTPUT_DIR/another"';
    const safe = (delegate_when: string) => ({ script, federation: { outputs: 'protect', delegate_when } });
    const token = await delegating(them, 'safe', [member(a, 'safe')], safe('saturated'));
    await origin.outside.put(alice, 'safe/in/x', '1');
    assert.equal(placeOf(await onlySucceeded(origin, alice, 'safe')), origin.id);
    const always = delegatingBody('safe', [member(a, 'safe')], token, safe('always'));
    expectStatus(await origin.call('PUT', '/system/services', { as: alice, body: always }), 204);

    await origin.outside.put(alice, 'safe/in/y', 'of another input');
    const second = (await allEnded(origin, alice, 'safe', 2)).find((job) => keyOf(job) === 'in/y');
    assert.ok(second);
    assert.deepEqual([second.state, reasonOf(second)], ['failed', 'OutputConflict']);
    assert.match(second.message, /would replace "safe\/out\/(another|result)", which "safe-/);
    assert.equal(await origin.outside.get(alice, 'safe/out/result'), '1');

    await origin.outside.put(alice, 'safe/in/x', '2');
    const jobs = await allEnded(origin, alice, 'safe', 3);
    assert.equal(jobs.filter((job) => placeOf(job) === a.id).length, 2);
    assert.equal(await origin.outside.get(alice, 'safe/out/result'), '2');
    await expectStagingEmpty(origin, 'safe');
  });

  test('outputs: with isolation by user, results go to the bucket of the input file', async () => {
    const { origin, a, people } = them;
    await delegating(them, 'iso', [member(a, 'iso')], {
      script: copying(),
      visibility: 'restricted',
      isolation_level: 'USER',
      allowed_users: [BOB.sub],
    });
    const bobs = `iso-${BOB.sub.slice(0, 10)}`;
    await origin.outside.put(people.bob, `${bobs}/in/his`, 'of Bob');
    await allEnded(origin, people.bob, 'iso', 1);
    assert.equal(await origin.outside.get(people.bob, `${bobs}/out/his`), 'of Bob');
    await origin.outside.put(people.alice, 'iso/in/hers', 'of Alice');
    const jobs = await allEnded(origin, people.alice, 'iso', 2);
    assert.deepEqual(jobs.map(placeOf), [a.id, a.id]);
    assert.equal(await origin.outside.get(people.alice, 'iso/out/hers'), 'of Alice');
    assert.deepEqual(await origin.outside.keys(people.bob, bobs), ['in/his', 'out/his']);
    assert.deepEqual(await origin.outside.keys(people.alice, 'iso'), ['in/hers', 'out/hers']);
  });

  test('outputs: results go to storage providers of the definition, whose keys stay at the origin', async () => {
    const { origin, a, c, people } = them;
    const far = await foreign('far');
    await delegating(them, 'carried', [member(a, 'carried')], {
      script: `${copying('.txt')}; ${copying('.png')}`,
      storage_providers: { minio: { far }, s3: { far: { ...far } } },
      output: [
        { storage_provider: 'minio.far', path: 'far/pics', suffix: ['.png'] },
        minio('carried/out', { suffix: ['.txt'] }),
      ],
    });
    await origin.outside.put(people.alice, 'carried/in/x', 'x');
    const job = await onlySucceeded(origin, people.alice, 'carried');
    assert.equal(placeOf(job), a.id);
    assert.deepEqual(await c.outside.keys(c.admin, 'far'), ['pics/x.png']);
    assert.deepEqual(await origin.outside.keys(people.alice, 'carried'), ['in/x', 'out/x.txt']);
    assert.ok(!JSON.stringify(a.wire.seen).includes(far.secret_key));
    await expectStagingEmpty(origin, 'carried');
  });

  test('outputs: a result that cannot be written fails the job, with the reason; staging is empty afterwards', async () => {
    const { origin, a, people } = them;
    const far = await foreign('far2');
    await delegating(them, 'refused', [member(a, 'refused')], {
      script: copying(),
      storage_providers: { minio: { far } },
      output: [{ storage_provider: 'minio.far', path: 'no-such-bucket/x' }],
    });
    await origin.outside.put(people.alice, 'refused/in/x', 'x');
    const [job] = await allEnded(origin, people.alice, 'refused', 1);
    assert.deepEqual([job?.state, job && reasonOf(job), job?.exit_code], ['failed', 'OutputFailed', 0]);
    assert.match(job?.message ?? '', /minio\.far.*no-such-bucket/);
    await expectStagingEmpty(origin, 'refused');
  });

  test('outputs: without outputs in the definition, no result is written', async () => {
    const { origin, a, people } = them;
    await delegating(them, 'mute', [member(a, 'mute')], { script: `${copying()}; echo printed`, output: [] });
    const id = await origin.outside.submit(people.alice, 'mute', 'x');
    const job = await endedWell(origin, people.alice, 'mute', id);
    assert.equal(placeOf(job), a.id);
    await expectStagingEmpty(origin, 'mute');
  });

  test('outputs: of a failed script, no result is written; the origin has its exit code, reason and log', async () => {
    const { origin, a, people } = them;
    await delegating(them, 'fails', [member(a, 'fails')], { script: `${copying()}; echo oh no >&2; exit 3` });
    await origin.outside.put(people.alice, 'fails/in/x', 'x');
    const [job] = await allEnded(origin, people.alice, 'fails', 1);
    assert.ok(job);
    assert.deepEqual([job.state, reasonOf(job), job.exit_code, placeOf(job)], ['failed', 'ScriptFailed', 3, a.id]);
    assert.match(job.message, /exit code 3/);
    assert.deepEqual(await origin.outside.keys(people.alice, 'fails'), ['in/x']);
    const log = await origin.call('GET', `/system/logs/fails/${job.id}`, { as: people.alice });
    assert.match(log.text, /oh no\n/);
    await expectStagingEmpty(origin, 'fails');
  });
});

describe('stays here: a job whose input needs keys of the definition', () => {
  test('stays here: the job runs at the origin, and its timeline says why', async () => {
    const { origin, a, people } = them;
    const far = await foreign('far3');
    await them.c.outside.put(them.c.admin, 'far3/in/x', 'far away');
    await delegating(them, 'stays', [member(a, 'stays')], {
      script: copying(),
      storage_providers: { minio: { far } },
    });
    const event = {
      storage_provider: 'minio.far',
      event: JSON.stringify({
        Key: 'far3/in/x',
        Records: [
          {
            eventSource: 'minio:s3',
            eventName: 's3:ObjectCreated:Put',
            s3: { bucket: { name: 'far3' }, object: { key: 'in/x' } },
          },
        ],
      }),
    };
    const id = await origin.outside.submit(people.alice, 'stays', event);
    const job = await eventually(async () => {
      const seen = await origin.outside.job(people.alice, 'stays', id);
      assert.ok(['succeeded', 'failed'].includes(seen.state), storyOf(seen));
      return seen;
    });
    assert.equal(placeOf(job), origin.id, storyOf(job));
    assert.ok(statesOf(job).includes('queued StaysHere'), storyOf(job));
    assert.equal(await origin.outside.get(people.alice, 'stays/out/x'), 'far away');
  });
});

test('no federation: a job of a service without members runs at the origin, without a decision', async () => {
  const { origin, people } = them;
  await origin.outside.create(people.alice, service('alone', copying()));
  await origin.outside.put(people.alice, 'alone/in/x', 'x');
  const job = await onlySucceeded(origin, people.alice, 'alone');
  assert.deepEqual([placeOf(job), job.decisions], [origin.id, []]);
});
