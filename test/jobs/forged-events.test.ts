import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { ALICE } from '../support/issuer-users.ts';
import { Outside, service } from '../support/jobs.ts';
import { ADMIN, startTestManager, type TestManager } from '../support/manager.ts';
import { startPeople } from '../support/people.ts';

const { issuer, alice, bob, settings } = await startPeople();
let manager: TestManager;
let outside: Outside;
/** The tokens of Alice's service, which all users may call, and of Bob's own. */
let openToken: string;
let bobsToken: string;
let adminsToken: string;

const PRIVATE = 'only Alice may read this';
/** Prints everything that the script was given. */
const SHOW =
  'cat "$INPUT_FILE_PATH"; echo; echo "key=${STORAGE_OBJECT_KEY-none}"; cp "$INPUT_FILE_PATH" "$TMP_OUTPUT_DIR/shown"';

before(async () => {
  manager = await startTestManager(settings);
  outside = new Outside(manager.url);
  const body = { bucket_name: 'alices' };
  assert.equal((await outside.call('POST', '/system/buckets', { as: alice, body })).status, 201);
  await outside.put(alice, 'alices/private.txt', PRIVATE);
  openToken = await outside.create(alice, service('open', SHOW, { visibility: 'public' }));
  const own = await outside.create(alice, service('alices-own', SHOW));
  assert.match(own, /^Bearer /);
  bobsToken = await outside.create(bob, service('bobs', SHOW));
  adminsToken = await outside.create(ADMIN, service('admins', SHOW, { visibility: 'public' }));
});
after(async () => {
  await manager[Symbol.asyncDispose]();
  await issuer.stop();
});

/** An event as MinIO sends it, for any object and in the name of any user. */
function eventOf(bucket: string, key: string, principalId: string): string {
  const record = {
    eventVersion: '2.0',
    eventSource: 'minio:s3',
    eventTime: '2026-01-01T00:00:00.000Z',
    eventName: 's3:ObjectCreated:Put',
    userIdentity: { principalId },
    requestParameters: { principalId, sourceIPAddress: '127.0.0.1' },
    s3: {
      bucket: { name: bucket, ownerIdentity: { principalId }, arn: `arn:aws:s3:::${bucket}` },
      object: { key: encodeURIComponent(key), size: PRIVATE.length, eTag: 'e', sequencer: '18E864A202E22FC0' },
    },
  };
  return JSON.stringify({ EventName: 's3:ObjectCreated:Put', Key: `${bucket}/${key}`, Records: [record] });
}

/** An event as one cluster sends it to another; the script gets the event inside. */
const passedOn = (event: string) => JSON.stringify({ storage_provider: 'minio.default', event });
const inside = (event: string) => (JSON.parse(event) as { event?: string }).event ?? event;

describe('forged event: an event that names a private object of another user is data, and the object is not read', () => {
  const cases: [string, () => string, string, string][] = [
    ['a guest who is logged in', () => bob, 'open', eventOf('alices', 'private.txt', ALICE.sub)],
    ['whoever has the token of the service', () => openToken, 'open', eventOf('alices', 'private.txt', ALICE.sub)],
    ['the owner of another service', () => bob, 'bobs', eventOf('alices', 'private.txt', ALICE.sub)],
    ['the token of another service', () => bobsToken, 'bobs', eventOf('alices', 'private.txt', ALICE.sub)],
    ['a guest, in the name of the administrator', () => bob, 'open', eventOf('alices', 'private.txt', 'oscar')],
    [
      'the token of a service of the administrator',
      () => adminsToken,
      'admins',
      eventOf('alices', 'private.txt', 'minio'),
    ],
    ['a guest of the administrator', () => bob, 'admins', eventOf('alices', 'private.txt', 'cluster_admin')],
    ['a guest, passed on', () => bob, 'open', passedOn(eventOf('alices', 'private.txt', ALICE.sub))],
    ['a guest, with a way round', () => bob, 'open', eventOf('open', 'in/../../alices/private.txt', ALICE.sub)],
  ];
  for (const [who, as, name, event] of cases) {
    test(`sent to /job by ${who}`, async () => {
      const id = await outside.submit(as(), name, event);
      const job = await outside.ended(name, id);
      const log = await outside.log(name, id);
      if (job.state === 'succeeded') assert.ok(log.includes(inside(event)), log);
      assert.ok(!log.includes(PRIVATE));
      assert.ok(!((await outside.get(ADMIN, `${name}/out/shown`)) ?? '').includes(PRIVATE));
    });

    test(`sent to /run by ${who}`, async () => {
      const { status, text } = await outside.call('POST', `/run/${name}`, { as: as(), body: event });
      const answer = Buffer.from(text, 'base64').toString();
      assert.ok(status === 502 || (status === 200 && answer === inside(event)), `${status} ${answer}`);
      assert.ok(!text.includes(PRIVATE));
    });
  }
});

test('service token: /job reads files under the inputs of the service, /run reads none', async () => {
  await outside.put(alice, 'open/in/x', 'an input');
  await outside.put(alice, 'open/aside/x', 'no input');
  const named = async (key: string) => {
    const id = await outside.submit(openToken, 'open', eventOf('open', key, ALICE.sub));
    await outside.ended('open', id);
    return outside.log('open', id);
  };
  assert.match(await named('in/x'), /an input\nkey=in\/x\n/);
  assert.match(await named('aside/x'), /"Key":"open\/aside\/x".*\nkey=none\n/);
  const event = eventOf('open', 'in/x', ALICE.sub);
  const { text } = await outside.call('POST', '/run/open', { as: openToken, body: event });
  assert.equal(Buffer.from(text, 'base64').toString(), event);
});

test('event of a user: a file that the user may read is the input', async () => {
  const id = await outside.submit(alice, 'alices-own', eventOf('alices', 'private.txt', 'nobody'));
  assert.equal((await outside.ended('alices-own', id)).state, 'succeeded');
  assert.match(await outside.log('alices-own', id), new RegExp(`${PRIVATE}\nkey=private.txt\n`));
});
