import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import {
  allEnded,
  copying,
  delegating,
  endedWell,
  onlySucceeded,
  placeOf,
  startDelegation,
} from '../support/delegation.ts';
import { type Clusters, expectStatus, member, read, type TestCluster } from '../support/federation.ts';
import { service } from '../support/jobs.ts';

let them: Clusters;
before(async () => {
  them = await startDelegation();
});
after(() => them[Symbol.asyncDispose]());

describe('event: a delegated job gets the same bytes as a local job (F7, F8)', () => {
  const SUM = 'sha256sum <"$INPUT_FILE_PATH" >"$TMP_OUTPUT_DIR/$JOB_UUID"; echo "event=$EVENT"';
  const sha256 = (bytes: Uint8Array | string) => createHash('sha256').update(bytes).digest('hex');
  before(async () => {
    const { origin, a, people } = them;
    await delegating(them, 'bytes', [member(a, 'bytes')], { script: SUM });
    await origin.outside.create(people.alice, service('bytes-here', SUM));
  });

  const large = randomBytes(5 * 1024 * 1024);
  const events: [name: string, event: Uint8Array | string, input: Uint8Array | string][] = [
    ['empty', '', ''],
    ['text that is not JSON', 'hello %% world\n', 'hello %% world\n'],
    ['text with a byte order mark', '\ufeffhello %%', '\ufeffhello %%'],
    ['base64, as clients send files', Buffer.from('a file').toString('base64'), 'a file'],
    ['bytes that are not text', Uint8Array.from([0, 255, 10, 0, 13]), Uint8Array.from([0, 255, 10, 0, 13])],
    ['five megabytes of random bytes', large, large],
    [
      'JSON whose storage_provider is a number',
      '{"storage_provider": 5, "event": {}}',
      '{"storage_provider": 5, "event": {}}',
    ],
    ['JSON that is not an object', '[1, "two"]', '[1, "two"]'],
  ];
  for (const [name, event, input] of events) {
    test(`event: ${name}`, async () => {
      const { origin, a, people } = them;
      const readBy = async (at: string) => {
        const id = await origin.outside.submit(people.alice, at, event);
        const job = await endedWell(origin, people.alice, at, id);
        const log = await origin.call('GET', `/system/logs/${at}/${id}`, { as: people.alice });
        const sum = (await origin.outside.get(people.alice, `${at}/out/${id}`))?.slice(0, 64);
        return { place: placeOf(job), sum, event: log.text.slice(log.text.indexOf('event=')) };
      };
      const there = await readBy('bytes');
      const { place, ...here } = await readBy('bytes-here');
      assert.equal(place, origin.id);
      assert.deepEqual(there, { ...here, place: a.id });
      assert.equal(there.sum, sha256(input));
    });
  }
});

describe('environment and secrets of a delegated job', () => {
  /** Writes its environment, and every file that it can find, to its outputs. */
  const LOOK = `
    env | sort >"$TMP_OUTPUT_DIR/env"
    find "$TMP_OUTPUT_DIR/.." "$TMP_INPUT_DIR" /var/run/secrets -type f -exec cat {} + >"$TMP_OUTPUT_DIR/files" 2>/dev/null
    true`;
  const environment = {
    variables: { PLAIN: 'a variable', QUOTED: `it's "so" $HOME` },
    secrets: { KEPT: 'a secret of the definition' },
  };
  /** Variables that differ between the two runs. */
  const OWN = ['JOB_UUID', 'OSCAR_SERVICE_NAME', 'OSCAR_SERVICE_TOKEN', 'RESOURCE_ID', 'EVENT', 'EVENT_TIME'];
  const WHERE = /^(HOME|PWD|OLDPWD|TMPDIR|TMP_INPUT_DIR|TMP_OUTPUT_DIR|INPUT_FILE_PATH|_)$/;

  const variablesIn = (text = '') =>
    Object.fromEntries(
      text
        .split('\n')
        .flatMap((line) =>
          line.includes('=') ? [[line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]] : [],
        ),
    );

  test('environment: the variables and secrets of a local run, the job id of the origin, the token of the worker, and no key (F36)', async () => {
    const { origin, a, people } = them;
    const refreshToken = await delegating(them, 'looks', [member(a, 'looks-there')], { script: LOOK, environment });
    await origin.outside.create(people.alice, service('looks-here', LOOK, { environment }));
    for (const name of ['looks', 'looks-here']) await origin.outside.put(people.alice, `${name}/in/x`, 'x');
    const job = await onlySucceeded(origin, people.alice, 'looks');
    await onlySucceeded(origin, people.alice, 'looks-here');
    assert.equal(placeOf(job), a.id);
    const file = async (name: string, what: string) =>
      (await origin.outside.get(people.alice, `${name}/out/${what}`)) ?? '';
    const [there, here] = [variablesIn(await file('looks', 'env')), variablesIn(await file('looks-here', 'env'))];
    assert.deepEqual(Object.keys(there), Object.keys(here));
    for (const [name, value] of Object.entries(here)) {
      if (!OWN.includes(name) && !WHERE.test(name)) assert.equal(there[name], value, name);
    }
    assert.equal(there['KEPT'], 'a secret of the definition');
    assert.equal(there['JOB_UUID'], job.id);
    assert.equal(there['OSCAR_SERVICE_NAME'], 'looks-there');
    const worker = await read(a, people.alice, 'looks-there');
    assert.equal(there['OSCAR_SERVICE_TOKEN'], worker.token);
    assert.notEqual(worker.token, (await read(origin, people.alice, 'looks')).token);

    const seen = (await file('looks', 'env')) + (await file('looks', 'files'));
    const secrets = { 'the refresh token': refreshToken, ...(await secretsOf('looks-there')) };
    for (const [what, secret] of Object.entries(secrets)) {
      assert.ok(!seen.includes(secret), `${what} can be read`);
    }
    assert.doesNotMatch(seen, /OSCAR[0-9A-F]{15}/, 'keys of a job');
  });

  /** Secrets of a federation that no script may see, by their description. */
  async function secretsOf(worker: string): Promise<Record<string, string>> {
    const { origin, a, people } = them;
    const made = a.wire.seen.find(({ method, body }) => method === 'POST' && body.includes(`"${worker}"`));
    const order = Buffer.from(String(made?.headers['x-oscar-federation']), 'base64url').toString();
    const [root, hers] = await Promise.all([
      origin.outside.provider(origin.admin),
      origin.outside.provider(people.alice),
    ]);
    return {
      'the member key': (JSON.parse(order) as { key: string }).key,
      'the login of Alice': people.alice.slice('Bearer '.length),
      'the key of the store': root.secret_key,
      'the key of Alice': hers.secret_key,
    };
  }

  test('secrets: no member gets the refresh token, keys of a provider or the login of an invoker, in requests, files or logs (F32, F36)', async () => {
    const { origin, a, c, people } = them;
    const far = await c.outside.provider(c.admin);
    const { endpoint, region, access_key, secret_key } = far;
    expectStatus(await c.call('POST', '/system/buckets', { as: c.admin, body: { bucket_name: 'far-results' } }), 201);
    const refreshToken = await delegating(them, 'guarded', [member(a, 'guarded')], {
      script: copying(),
      visibility: 'public',
      storage_providers: { minio: { far: { endpoint, region, access_key, secret_key, verify: false } } },
      output: [
        { storage_provider: 'minio.far', path: 'far-results/here' },
        { storage_provider: 'minio.default', path: 'guarded/out' },
      ],
    });
    const id = await origin.outside.submit(people.bob, 'guarded', 'of Bob');
    const job = await endedWell(origin, people.bob, 'guarded', id);
    assert.equal(placeOf(job), a.id);
    const name = `event-file-${id}`;
    assert.equal(await c.outside.get(c.admin, `far-results/here/${name}`), 'of Bob');
    assert.equal(await origin.outside.get(people.alice, `guarded/out/${name}`), 'of Bob');

    const kept = keptBy(a) + JSON.stringify(a.wire.seen);
    assert.ok(kept.includes('guarded'), 'the files and the log were read');
    for (const [what, secret] of Object.entries({
      'the refresh token': refreshToken,
      'the login of Bob': people.bob.slice('Bearer '.length),
      'the secret key of the provider': secret_key,
      'the access key of the provider': access_key,
    })) {
      assert.ok(!kept.includes(secret), `${what} is at the member`);
    }
  });

  test('secrets: no manager has a member key or a token in plain text in its files, logs or answers', async () => {
    const { origin, a, people } = them;
    const refreshToken = await delegating(them, 'sealed', [member(a, 'sealed-there')], { script: copying() });
    const id = await origin.outside.submit(people.alice, 'sealed', 'x');
    assert.equal(placeOf(await endedWell(origin, people.alice, 'sealed', id)), a.id);
    const views = ['services', 'federation', 'replicas', 'jobs', 'logs'];
    const asked = [origin, a].flatMap((at) =>
      views
        .map((view) => `/system/${view}/${at === a ? 'sealed-there' : 'sealed'}?include=status`)
        .map((path) => ({ at, path })),
    );
    const answers = await Promise.all(asked.map(({ at, path }) => at.call('GET', path, { as: people.alice })));
    const places = { origin: keptBy(origin), member: keptBy(a), answers: answers.map(({ text }) => text).join('\n') };
    for (const text of Object.values(places)) assert.ok(text.includes('sealed'), 'the files and the log were read');
    const { 'the member key': key = '', 'the login of Alice': login = '' } = await secretsOf('sealed-there');
    for (const [what, secret] of Object.entries({ key, login, refreshToken })) {
      assert.ok(secret.length > 20, what);
      for (const [where, text] of Object.entries(places)) assert.ok(!text.includes(secret), `${what}: ${where}`);
    }
  });

  /** The bytes of all files of a manager, and its log. */
  function keptBy({ manager }: TestCluster): string {
    const files = readdirSync(manager.directory, { recursive: true, withFileTypes: true }).filter((each) =>
      each.isFile(),
    );
    const texts = files.map(({ parentPath, name }) => readFileSync(join(parentPath, name), 'latin1'));
    return texts.join('\n') + JSON.stringify(manager.log);
  }
});

test('access: a job of a private service is not shown to other users, wherever it ran', async () => {
  const { origin, a, people } = them;
  await delegating(them, 'private', [member(a, 'private')], { script: 'echo printed' });
  const id = await origin.outside.submit(people.alice, 'private', 'x');
  await endedWell(origin, people.alice, 'private', id);
  await allEnded(origin, people.alice, 'private', 1);
  for (const path of [`/system/jobs/private/${id}`, `/system/logs/private/${id}`]) {
    expectStatus(await origin.call('GET', path, { as: people.bob }), 404);
  }
});
