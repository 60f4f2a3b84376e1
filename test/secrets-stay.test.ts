import assert from 'node:assert/strict';
import { type Dirent, existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { ALICE } from './support/issuer-users.ts';
import { Meeting, Outside, service } from './support/jobs.ts';
import { ADMIN, type Answer, startTestManager, temporaryDirectory } from './support/manager.ts';
import { startPeople } from './support/people.ts';
import { startProcess } from './support/process.ts';

/** Remembers every answer. */
class Heard extends Outside {
  readonly answers: Buffer[] = [];

  override async call(...request: Parameters<Outside['call']>): Promise<Answer> {
    const answer = await super.call(...request);
    this.answers.push(Buffer.from(JSON.stringify([...answer.headers]) + answer.text));
    return answer;
  }
}

/** What was looked through while a job ran, and afterwards. */
interface Findings {
  readonly environments: Buffer[];
  readonly commands: Buffer[];
  readonly files: Buffer[];
}

const { issuer, alice, bob, settings } = await startPeople();
const refreshTokens = [await issuer.tokensFor(ALICE), await issuer.tokensFor(ALICE)].map((each) => each.refreshToken);
const ENVIRONMENT_SECRET = 'environment-secret-5e1f0c';
const meeting = new Meeting();
const directory = temporaryDirectory();
const found: Findings = { environments: [], commands: [], files: [] };
/** What leaves the vault for nobody, by what it is. */
const kept = new Map([
  ['the refresh token', refreshTokens[0] ?? ''],
  ['the refresh token that replaced it', refreshTokens[1] ?? ''],
  ['the access key of a provider', 'provider-access-0d93b7'],
  ['the secret key of a provider', 'provider-secret-77a1ce'],
  ['the password of a provider', 'provider-password-c40e52'],
  ['the password of a cluster', 'cluster-password-19bd6a'],
]);
let outside: Heard;
let log: string;

before(async () => {
  const far = await startTestManager();
  const ends: (() => void)[] = [];
  const manager = startProcess({ after: (end) => void ends.push(end as () => void) }, directory, {
    ...settings,
    OSCAR_LOG_LEVEL: 'trace',
    OSCAR_PEER_NETWORKS: '127.0.0.0/8',
  });
  try {
    outside = new Heard(await manager.listening);
    await live(new Outside(far.url), manager.child.pid ?? 0);
    manager.child.kill('SIGTERM');
    await manager.ended;
    collectFiles();
    log = manager.output();
  } finally {
    for (const end of ends) end();
    await far[Symbol.asyncDispose]();
  }
});
after(async () => {
  await issuer.stop();
  rmSync(directory, { recursive: true, force: true });
  meeting[Symbol.dispose]();
});

/** The life of a service that has secrets of every kind, as its owner and others see it. */
async function live(foreign: Outside, pid: number): Promise<void> {
  const { endpoint, region, access_key, secret_key } = await foreign.provider(ADMIN);
  kept.set('the access key of a store in use', access_key).set('the secret key of a store in use', secret_key);
  await foreign.call('POST', '/system/buckets', { as: ADMIN, body: { bucket_name: 'results' } });

  const script = `echo made >"$TMP_OUTPUT_DIR/made"; ${meeting.say('begun', 'yes')}; ${meeting.wait('go')}`;
  const definition = (refresh_token: string | undefined) =>
    service('keeps', script, {
      federation: { topology: 'star' },
      environment: { secrets: { KEY: ENVIRONMENT_SECRET, ...(refresh_token !== undefined && { refresh_token }) } },
      output: [
        { storage_provider: 'minio.default', path: 'keeps/out' },
        { storage_provider: 'minio.far', path: 'results/out' },
      ],
      storage_providers: {
        minio: { far: { endpoint, region, access_key, secret_key, verify: false } },
        s3: {
          extra: {
            access_key: kept.get('the access key of a provider'),
            secret_key: kept.get('the secret key of a provider'),
            region: 'r',
          },
        },
        webdav: { dav: { hostname: 'dav.example', login: 'u', password: kept.get('the password of a provider') } },
      },
      clusters: {
        b: { endpoint: 'https://b.example', auth_user: 'u', auth_password: kept.get('the password of a cluster') },
      },
    });
  const [first, second] = refreshTokens;
  const token = await outside.create(alice, definition(first));
  await look('keeps');
  const shown = (await outside.call('GET', '/system/services/keeps', { as: alice })).json();
  await put(shown, 204);
  await put(definition(undefined), 204);
  await put(definition(second), 204);
  await refusals(definition(second));

  await outside.put(alice, 'keeps/in/x', 'x');
  const id = await outside.submit(token, 'keeps', 'an event');
  const answered = outside.call('POST', '/run/keeps', { as: token, body: 'an event' });
  await meeting.heard('begun');
  await outside.running(alice, 'keeps', id);
  collectProcesses(pid);
  collectFiles();
  meeting.letGo('go');
  assert.equal((await answered).status, 200);
  const jobs = await outside.allEnded('keeps', 3);
  for (const job of jobs) {
    assert.equal(job.state, 'succeeded', job.message);
    await outside.log('keeps', job.id);
  }
  assert.equal(await foreign.get(ADMIN, 'results/out/made'), 'made\n', 'the keys were used');
  await look('keeps');
  const { status } = await outside.call('DELETE', '/system/services/keeps', { as: alice });
  assert.equal(status, 204);
}

async function put(body: unknown, expected: number): Promise<void> {
  const { status, text } = await outside.call('PUT', '/system/services', { as: alice, body });
  assert.equal(status, expected, text);
}

/** What is refused is not repeated to whoever sent it. */
async function refusals(definition: Record<string, unknown>): Promise<void> {
  const post = async (as: string, body: unknown) =>
    (await outside.call('POST', '/system/services', { as, body })).status;
  assert.equal(await post(alice, definition), 409);
  assert.equal(await post(alice, { ...definition, name: 'other', cpu: '-1', clusters: refreshTokens }), 400);
  assert.equal(await post(alice, JSON.stringify(definition).slice(0, -1)), 400);
  assert.ok((await post(bob, { ...definition, name: 'his' })) === 403, 'her token is not his');
  assert.equal((await outside.call('GET', '/system/services/his', { as: ADMIN })).status, 404);
  await put({ ...definition, memory: 'much' }, 400);
}

/** Every way to look at a service, by everybody. */
async function look(name: string): Promise<void> {
  const paths = ['services', 'federation', 'replicas', 'jobs', 'logs', 'metrics'].map((each) => `${each}/${name}`);
  const others = ['services', 'config', 'info', 'status', 'logs', 'metrics', 'buckets'];
  for (const path of [...paths, `services/${name}/deployment`, ...others]) {
    for (const as of [alice, bob, ADMIN]) await outside.call('GET', `/system/${path}`, { as });
  }
  await outside.call('GET', '/metrics');
}

/** Of the manager and of all that it has started. */
function collectProcesses(manager: number): void {
  if (!existsSync('/proc/self/environ')) return;
  const parents = new Map<number, number>();
  for (const entry of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    const parent = /^PPid:\s*(\d+)$/m.exec(readIfThere(join('/proc', entry, 'status')).toString())?.[1];
    if (parent !== undefined) parents.set(Number(entry), Number(parent));
  }
  const isBelow = (pid: number | undefined): boolean =>
    pid !== undefined && pid > 1 && (pid === manager || isBelow(parents.get(pid)));
  for (const pid of [...parents.keys()].filter(isBelow)) {
    found.environments.push(readIfThere(`/proc/${pid}/environ`));
    found.commands.push(readIfThere(`/proc/${pid}/cmdline`));
  }
}

/** Directories come and go while jobs run. */
function collectFiles(below = directory): void {
  let entries: Dirent[];
  try {
    entries = readdirSync(below, { withFileTypes: true });
  } catch {
    return;
  }
  for (const entry of entries) {
    if (entry.isDirectory()) collectFiles(join(below, entry.name));
    else if (entry.isFile()) found.files.push(readIfThere(join(below, entry.name)));
  }
}

/** Nothing, if it went while we looked. */
function readIfThere(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch {
    return Buffer.alloc(0);
  }
}

/** How a text may stand among bytes: as it is, in hexadecimal, in base64 of something around it. */
function formsOf(secret: string): string[] {
  const base64 = [0, 1, 2].map((shift) => {
    const encoded = Buffer.from('.'.repeat(shift) + secret).toString('base64');
    return encoded.slice(shift === 0 ? 0 : 4, -4);
  });
  return [secret, Buffer.from(secret).toString('hex'), ...base64];
}

const isIn = (places: readonly Buffer[], secret: string) =>
  formsOf(secret).some((form) => places.some((bytes) => bytes.includes(form)));

function assertNowhere(places: readonly Buffer[], secrets: Iterable<[string, string]>): void {
  for (const [name, secret] of secrets) assert.ok(!isIn(places, secret), `${name} can be read`);
}

const all = () => [...kept, ['a secret of the environment', ENVIRONMENT_SECRET] as [string, string]];

describe('refresh tokens and keys of providers', () => {
  test('are in no log line at any level', () => {
    assert.match(log, /"path":"\/system\/services"/, 'requests are logged');
    assertNowhere([Buffer.from(log)], [...all(), ['her login', alice.slice('Bearer '.length)]]);
  });

  test('are in no HTTP answer', () => {
    assert.ok(isIn(outside.answers, 'keeps/out'), 'definitions were shown');
    assertNowhere(outside.answers, all());
  });

  test('are in no file of the manager, neither while a job runs nor afterwards', () => {
    assert.ok(isIn(found.files, 'keeps/out'), 'definitions are in these files');
    assertNowhere(found.files, kept);
  });

  test('are not in the environment or arguments of any process', { skip: !existsSync('/proc/self/environ') }, () => {
    assert.ok(isIn(found.environments, ENVIRONMENT_SECRET), 'the environment of a script was seen');
    assert.ok(found.commands.length > 1, 'and processes of the manager');
    assertNowhere(found.environments, kept);
    assertNowhere(found.commands, all());
  });
});
