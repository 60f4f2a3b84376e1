import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { type TestContext, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { eventually, keyOf, Meeting, Outside, reasonOf, type SeenJob, service } from './support/jobs.ts';
import { ADMIN, temporaryDirectory } from './support/manager.ts';
import { type ManagerProcess, startProcess } from './support/process.ts';
import { seededRandom } from './support/seeded-random.ts';
import { processesOf } from './support/stray-processes.ts';

const LONG = process.env['OSCAR_TEST_LONG'] !== undefined;
const JOBS = LONG ? 500 : 60;
const KILLS = LONG ? 20 : 4;
const CLIENTS = 4;
const ROUNDS = LONG ? 30 : 3;
const SEED = Number(process.env['OSCAR_TEST_SEED'] ?? randomInt(2 ** 31));

/** Room for a few at a time, so that some run, some wait and some come whenever it is killed. */
const SETTINGS = { OSCAR_LOCAL_CPU: '1', OSCAR_LOCAL_MEMORY: '4Gi' };

/** How a script goes on, by what its input says, and how its job must end. */
const KINDS: Record<string, { script: string; ends: readonly [string, string, number] }> = {
  quick: { script: 'true', ends: ['succeeded', 'Completed', 0] },
  slow: { script: 'sleep 0.5', ends: ['succeeded', 'Completed', 0] },
  fails: { script: 'sleep 0.1; code=3', ends: ['failed', 'ScriptFailed', 3] },
  large: { script: 'head -c 2000000 /dev/zero >>"$TMP_OUTPUT_DIR/$JOB_UUID"', ends: ['succeeded', 'Completed', 0] },
  haunts: { script: '(while :; do sleep 1; done) &', ends: ['succeeded', 'Completed', 0] },
};

/** What was asked of the manager, once: an upload or a call that was answered, or nobody knows. */
interface Asked {
  readonly kind: string;
  readonly key?: string;
  /** Of a call that was answered. */
  id?: string;
  acknowledged: boolean;
}

test(`chaos: ${JOBS} jobs survive ${KILLS} kill -9 of the manager (seed ${SEED})`, {
  timeout: 240_000 + JOBS * 3_000,
}, async (t) => {
  t.diagnostic(`repeat with OSCAR_TEST_SEED=${SEED}`);
  using meeting = new Meeting();
  const directory = placeFor(t);
  const manager = new Mortal(() => startProcess(t, directory, SETTINGS));
  await manager.begin();
  const token = await createServices(manager.outside, meeting);

  const asked = await disturb(manager, token);

  const [worked, listened] = await untilAllEnded(manager.outside, asked);
  await checkAcknowledged(asked, worked, manager.outside);
  checkEnds(asked, worked, meeting);
  await checkDelivered(worked, listened, manager.outside);
  const ids = new Set([...worked, ...listened].flatMap(({ attempts }) => attempts.map(({ name }) => name)));
  await eventually(() => checkNothingLeft(directory, ids));
  manager.process.child.kill('SIGTERM');
  assert.equal(await manager.process.ended, 0, manager.process.output());
  assert.deepEqual(jobKeys(directory), [], 'no key of a job outlives it');
});

test(`chaos: a service that is removed while the manager is killed leaves nothing, ${ROUNDS} times (seed ${SEED})`, {
  timeout: 180_000 + ROUNDS * 60_000,
}, async (t) => {
  using meeting = new Meeting();
  const random = seededRandom(SEED);
  const directory = placeFor(t);
  const manager = new Mortal(() => startProcess(t, directory, SETTINGS));
  await manager.begin();
  for (let round = 0; round < ROUNDS; round++) {
    const endless = `sleep 1000 & ${meeting.say('$JOB_UUID', 'begun')}; wait`;
    const token = await manager.outside.create(ADMIN, service('goes', endless, { cpu: '0.2' }));
    const ids = [];
    for (let n = 0; n < 4; n++) ids.push(await manager.outside.submit(token, 'goes', 'x'));
    await Promise.all(ids.map((id) => meeting.heard(id)));
    const remove = () => manager.outside.call('DELETE', '/system/services/goes', { as: ADMIN });
    const removal = remove().catch(() => undefined);
    await pause(random() * 60);
    await manager.kill();
    await removal;
    await manager.begin();
    // Whoever got no answer asks again.
    await eventually(async () => assert.ok([204, 404].includes((await remove()).status)));
    await eventually(() => checkNothingLeft(directory, new Set()));
  }
});

/** A data directory that goes with the test, and so do scripts that a test which failed has left. */
function placeFor(t: TestContext): string {
  const directory = temporaryDirectory();
  t.after(() => {
    for (const pid of processesOf(join(directory, 'runs'))) process.kill(Number(pid), 'SIGKILL');
    rmSync(directory, { recursive: true, force: true });
  });
  return directory;
}

/** A manager that comes back after each kill, at another address. */
class Mortal {
  readonly #start: () => ManagerProcess;
  process: ManagerProcess;
  /** For whoever calls it now; what is under way when it dies fails. */
  outside = new Outside('http://127.0.0.1:1');
  life = 0;

  constructor(start: () => ManagerProcess) {
    this.#start = start;
    this.process = start();
  }

  async begin(): Promise<void> {
    this.outside = new Outside(await this.process.listening);
    this.life += 1;
  }

  async kill(): Promise<void> {
    this.process.child.kill('SIGKILL');
    assert.equal(await this.process.ended, 'SIGKILL', this.process.output());
    this.process = this.#start();
  }
}

/** One that works, and one that is told of each of its results: a result that came twice would be told twice. */
async function createServices(outside: Outside, meeting: Meeting): Promise<string> {
  const cases = Object.entries(KINDS).map(([kind, { script }]) => `*${kind}*) ${script} ;;`);
  const script = `
    said=${meeting.directory}/$JOB_UUID
    echo begun >>$said
    code=0
    cp "$INPUT_FILE_PATH" "$TMP_OUTPUT_DIR/$JOB_UUID"
    case "$(cat "$INPUT_FILE_PATH")" in ${cases.join('\n')} esac
    echo done >>$said
    exit $code`;
  const token = await outside.create(ADMIN, service('works', script, { cpu: '0.2', memory: '64Mi' }));
  const input = [{ storage_provider: 'minio.default', path: 'works/out' }];
  const listening = `echo begun >>${meeting.directory}/$JOB_UUID; echo done >>${meeting.directory}/$JOB_UUID`;
  await outside.create(ADMIN, service('listens', listening, { input, output: [], cpu: '0.1', memory: '64Mi' }));
  return token;
}

/** Clients that want their jobs done, however often the manager dies; each life of it gets its share of them. */
async function disturb(manager: Mortal, token: string): Promise<Asked[]> {
  const random = seededRandom(SEED);
  const share = Math.ceil(JOBS / (KILLS + 1));
  const kinds = Object.keys(KINDS);
  const asked: Asked[] = [];
  let next = 0;
  let acknowledged = 0;
  const over = new AbortController();

  const client = async () => {
    for (let n = next++; n < JOBS; n = next++) {
      const kind = kinds[Math.floor(random() * kinds.length)] ?? '';
      for (let tries = 1; ; tries++) {
        over.signal.throwIfAborted();
        while (n >= share * manager.life) await pause(5, undefined, { signal: over.signal });
        const one: Asked = { kind, acknowledged: false, ...(n % 2 === 0 && { key: `in/${n}-${tries}` }) };
        asked.push(one);
        if (await ask(one, manager.outside, token)) break;
        await pause(20);
      }
      acknowledged += 1;
    }
  };
  const killer = async () => {
    for (let kill = 0; kill < KILLS; kill++) {
      const enough = Math.min(share * kill + 1 + Math.floor(random() * share), share * (kill + 1));
      await eventually(() => assert.ok(acknowledged >= enough), 180_000);
      await pause(random() * 400);
      await manager.kill();
      // Now and then it does not even get to the point where it listens.
      if (random() < 0.3) {
        await pause(random() * 600);
        await manager.kill();
      }
      await manager.begin();
    }
  };
  try {
    await Promise.all([killer(), ...Array.from({ length: CLIENTS }, client)]);
    return asked;
  } finally {
    over.abort();
  }
}

/** True when the manager said that it has it. */
async function ask(one: Asked, outside: Outside, token: string): Promise<boolean> {
  try {
    if (one.key !== undefined) await outside.put(ADMIN, `works/${one.key}`, one.kind);
    else {
      const answer = await outside.call('POST', '/job/works', { as: token, body: JSON.stringify({ kind: one.kind }) });
      // It is so busy with coming back that it takes nothing.
      if (answer.status === 503) return false;
      assert.equal(answer.status, 201, answer.text);
      one.id = answer.headers.get('x-oscar-job-id') ?? '';
    }
    one.acknowledged = true;
  } catch (error) {
    // An answer that is a refusal is none that a kill explains.
    if (error instanceof assert.AssertionError) throw error;
  }
  return one.acknowledged;
}

/** The jobs of both services, once nothing more is to come. */
function untilAllEnded(outside: Outside, asked: readonly Asked[]): Promise<[SeenJob[], SeenJob[]]> {
  return eventually(
    async () => {
      const [worked, listened] = [await outside.jobs(ADMIN, 'works'), await outside.jobs(ADMIN, 'listens')];
      for (const { id, state } of [...worked, ...listened]) {
        assert.ok(state === 'succeeded' || state === 'failed', `${id} is ${state}`);
      }
      const least = asked.filter(({ acknowledged }) => acknowledged).length;
      assert.ok(worked.length >= least, `there are ${worked.length} jobs, and ${least} were acknowledged`);
      const results = worked.filter(({ state }) => state === 'succeeded').length;
      assert.ok(listened.length >= results, `${listened.length} of ${results} results were told`);
      return [worked, listened];
    },
    60_000 + JOBS * 500,
  );
}

/** Every upload has its one job, if it is there at all, and it is if it was acknowledged. Every call has its job. */
async function checkAcknowledged(asked: readonly Asked[], worked: readonly SeenJob[], outside: Outside): Promise<void> {
  const stored = new Set(await everyKey(outside));
  for (const { key, id, acknowledged } of asked) {
    if (key === undefined) {
      if (id !== undefined) assert.equal(worked.filter((job) => job.id === id).length, 1, `jobs of the call ${id}`);
      continue;
    }
    if (acknowledged) assert.ok(stored.has(key), `${key} was acknowledged and is gone`);
    const jobs = worked.filter(({ object }) => object?.key === key);
    assert.equal(jobs.length, stored.has(key) ? 1 : 0, `jobs of the upload ${key}`);
  }
  const unanswered = asked.filter(({ key, acknowledged }) => key === undefined && !acknowledged).length;
  const called = worked.filter(({ trigger }) => trigger === 'job').length;
  const answered = asked.filter(({ id }) => id !== undefined).length;
  assert.ok(
    called >= answered && called <= answered + unanswered,
    `${called} jobs of ${answered} + ${unanswered} calls`,
  );
}

/** Each script ran once from its beginning to its end, and the record says what came of it. */
function checkEnds(asked: readonly Asked[], worked: readonly SeenJob[], meeting: Meeting): void {
  for (const job of worked) {
    const said = readFileSync(join(meeting.directory, job.id), 'utf8');
    assert.equal(said, 'begun\ndone\n', JSON.stringify(job));
    assert.equal(job.attempts.length, 1, job.id);
    const one = asked.find(({ key, id }) => (key === undefined ? id === job.id : key === job.object?.key));
    const ends = one && KINDS[one.kind]?.ends;
    // What a call that got no answer was for is not known here.
    if (ends) assert.deepEqual([job.state, reasonOf(job), job.exit_code], ends, JSON.stringify(job));
    assert.ok(reasonOf(job) === 'Completed' || reasonOf(job) === 'ScriptFailed', JSON.stringify(job));
  }
}

/** What succeeded has its result, once; what failed has none. */
async function checkDelivered(
  worked: readonly SeenJob[],
  listened: readonly SeenJob[],
  outside: Outside,
): Promise<void> {
  const results = worked.filter(({ state }) => state === 'succeeded').map(({ id }) => `out/${id}`);
  const keys = (await everyKey(outside)).filter((key) => key.startsWith('out/'));
  assert.deepEqual(keys.toSorted(), results.toSorted());
  assert.deepEqual(listened.map(keyOf).toSorted(), results.toSorted());
}

async function everyKey(outside: Outside): Promise<string[]> {
  const keys: string[] = [];
  for (let page = ''; ; ) {
    const { json } = await outside.call('GET', `/system/buckets/works${page}`, { as: ADMIN });
    const { objects, next_page } = json() as { objects: { object_name: string }[]; next_page?: string };
    keys.push(...objects.map(({ object_name }) => object_name).filter((name) => !name.endsWith('/')));
    if (next_page === undefined) return keys;
    page = `?page=${encodeURIComponent(next_page)}`;
  }
}

/** Of an attempt that has ended its log and its end stay, and nothing else; nobody runs. */
function checkNothingLeft(directory: string, attempts: ReadonlySet<string>): void {
  const runs = join(directory, 'runs');
  assert.deepEqual(new Set(readdirSync(join(runs, 'attempts'))), attempts);
  assert.deepEqual(readdirSync(join(runs, 'removed')), []);
  for (const name of attempts) {
    const files = readdirSync(join(runs, 'attempts', name)).toSorted();
    assert.deepEqual(files, ['attempt.json', 'end.json', 'log'], name);
  }
  assert.deepEqual(processesOf(runs), []);
}

function jobKeys(directory: string): unknown[] {
  const file = readdirSync(directory, { recursive: true, encoding: 'utf8' }).find((path) =>
    path.endsWith('objects.db'),
  );
  using database = new DatabaseSync(join(directory, file ?? 'objects.db'), { readOnly: true });
  return database.prepare("SELECT access_key, expires FROM session WHERE kind = 'job'").all();
}
