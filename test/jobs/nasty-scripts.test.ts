import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  createWitness,
  forkRepeatedly,
  REPORT_PRESENCE,
} from '../../src/adapters/local-runner/process/witness.fixture.ts';
import { eventually, isMentioned, Meeting, Outside, reasonOf, type SeenJob, service } from '../support/jobs.ts';
import { ADMIN, startTestManager, type TestManager } from '../support/manager.ts';

const meeting = new Meeting();
let manager: TestManager;
let outside: Outside;
before(async () => {
  manager = await startTestManager({
    OSCAR_LOCAL_CPU: '8',
    OSCAR_LOCAL_MEMORY: '8Gi',
    OSCAR_LOCAL_DISK: '32Mi',
    OSCAR_MAX_LOG_BYTES: '1Mi',
  });
  outside = new Outside(manager.url);
});
after(async () => {
  await manager[Symbol.asyncDispose]();
  meeting[Symbol.dispose]();
});

/** Runs a script by an upload, and checks that the manager still answers. */
async function run(name: string, script: string, more = {}): Promise<{ job: SeenJob; log: string }> {
  await outside.create(ADMIN, service(name, script, more));
  await outside.put(ADMIN, `${name}/in/x`, 'x');
  const job = await outside.onlyJob(name);
  const log = await outside.log(name, job.id);
  assert.equal((await outside.call('GET', '/health')).status, 200);
  return { job, log };
}

const results = async (name: string) =>
  (await outside.keys(ADMIN, name)).filter((key) => key.startsWith('out/')).map((key) => key.slice('out/'.length));

/** Long enough for a script to set its traps on a busy machine. */
const IN_TIME = '5';

/** A program that prints its pid and runs until it is killed. */
const haunt = (name: string) => `sh -c '${meeting.say(name, '$$')}; ${meeting.wait('never')}'`;

/** Checks that the process that the script left is gone. */
async function isGone(name: string): Promise<void> {
  await meeting.heard(name);
  await eventually(() => assert.ok(!isMentioned(`${meeting.directory}/${name}`), `${name} still runs`));
}

describe('script that leaves processes', { concurrency: true }, () => {
  test('succeeds if it exits while its children live, and they are killed', async () => {
    const { job } = await run(
      'children',
      `${haunt('children')} & ${meeting.wait('children')}; echo x >"$TMP_OUTPUT_DIR/x"`,
    );
    assert.deepEqual([job.state, job.exit_code], ['succeeded', 0]);
    assert.deepEqual(await results('children'), ['x']);
    await isGone('children');
  });

  test('ends although a child has its own session, and the child is killed', async () => {
    const { job } = await run('away', `setsid ${haunt('away')} >/dev/null 2>&1 & ${meeting.wait('away')}; exit 7`);
    assert.deepEqual([job.state, reasonOf(job), job.exit_code], ['failed', 'ScriptFailed', 7]);
    await isGone('away');
  });

  const asProcess = process.getuid?.() === 0 && process.env['OSCAR_TEST_MEETING'] === undefined;
  test('is killed when its job has ended, although it forged its end and forks constantly', {
    skip: asProcess ? false : 'only scripts with a user id of their own are found then: NOT TESTED',
  }, async (t) => {
    const witness = createWitness(t);
    const forge = 'for file in marks/exit exit launch-1; do echo 0 >"$TMPDIR/../$file"; done 2>/dev/null';
    const annotations = { 'oscar-manager/job-timeout': IN_TIME };
    const { job } = await run(
      'hops',
      `${witness.inherit} ${REPORT_PRESENCE}; ${forge}; ${forkRepeatedly()} ${meeting.wait('never')}`,
      {
        annotations,
      },
    );
    assert.deepEqual([job.state, reasonOf(job)], ['failed', 'Timeout']);
    assert.ok(witness.begun());
    assert.ok(witness.allGone());
  });

  test('is killed after the timeout although it ignores TERM', async () => {
    const annotations = { 'oscar-manager/job-timeout': IN_TIME };
    const { job } = await run('deaf', `trap '' TERM; ${haunt('deaf')}`, { annotations });
    assert.deepEqual([job.state, reasonOf(job)], ['failed', 'Timeout']);
    assert.match(job.message, /did not end within 5 s/);
    await isGone('deaf');
  });

  test('is killed by a cancel although it ignores TERM', async () => {
    const token = await outside.create(ADMIN, service('deaf-too', `trap '' TERM; ${haunt('deaf-too')}`));
    const id = await outside.submit(token, 'deaf-too', 'x');
    await meeting.heard('deaf-too');
    assert.equal((await outside.call('DELETE', `/system/jobs/deaf-too/${id}`, { as: ADMIN })).status, 202);
    const job = await outside.ended('deaf-too', id);
    assert.deepEqual([job.state, reasonOf(job)], ['cancelled', 'Cancelled']);
    await isGone('deaf-too');
  });

  test('gets TERM first and may react before the kill', async () => {
    const script = `trap 'echo goodbye; exit 0' TERM; while :; do sleep 0.1; done`;
    const { job, log } = await run('polite', script, { annotations: { 'oscar-manager/job-timeout': IN_TIME } });
    assert.deepEqual([job.state, reasonOf(job)], ['failed', 'Timeout']);
    assert.match(log, /goodbye\n/);
  });
});

describe('script that exceeds a limit', { concurrency: true }, () => {
  /** What the issue names; the short run shows the same with less. */
  const megabytes = process.env['OSCAR_TEST_LONG'] ? 1000 : 100;

  test(`ends normally after printing ${megabytes} MB, with the beginning of it and a note in the log`, async () => {
    const script = `yes "0123456789 0123456789 0123456789 0123456789" | head -c ${megabytes}000000; echo >"$TMP_OUTPUT_DIR/x"`;
    const { job, log } = await run('prints', script);
    assert.deepEqual([job.state, job.exit_code], ['succeeded', 0]);
    assert.ok(log.length <= 2 ** 20 + 1000, String(log.length));
    assert.match(log, /oscar: the log is full \(1048576 bytes\).*dropped\n$/);
    assert.deepEqual(await results('prints'), ['x']);
  });

  test('is limited in the same way if it prints no newlines', async () => {
    const { job, log } = await run('prints-line', `head -c 20000000 /dev/zero | tr '\\0' x`);
    assert.equal(job.state, 'succeeded');
    assert.ok(log.length <= 2 ** 20 + 1000, String(log.length));
  });

  test('is stopped when it fills its disk quota, and nothing is uploaded', async () => {
    const script =
      'i=0; while :; do head -c 4000000 /dev/zero >"$TMP_OUTPUT_DIR/$i" || exit 9; i=$((i+1)); sleep 0.05; done';
    const { job } = await run('disk', script);
    assert.deepEqual([job.state, reasonOf(job)], ['failed', 'DiskFull']);
    assert.match(job.message, /exceeded its limit of disk space/);
    assert.deepEqual(await results('disk'), []);
  });

  test('is stopped when it exceeds its memory', async () => {
    const { job } = await run('memory', 'head -c 1000000000 /dev/zero | tail', { memory: '32Mi' });
    assert.deepEqual([job.state, reasonOf(job)], ['failed', 'OutOfMemory']);
    assert.match(job.message, /more memory than its 32 MiB/);
  });

  test('is stopped when it exceeds its timeout', async () => {
    const { job } = await run('long', 'sleep 1000', { annotations: { 'oscar-manager/job-timeout': '1' } });
    assert.deepEqual([job.state, reasonOf(job)], ['failed', 'Timeout']);
  });
});

describe('script that ends abnormally', { concurrency: true }, () => {
  test('fails if it kills itself with a signal', async () => {
    const { job } = await run('kills-itself', 'kill -9 $$');
    assert.deepEqual([job.state, reasonOf(job), job.exit_code], ['failed', 'ScriptFailed', 137]);
    assert.match(job.message, /SIGKILL/);
  });

  test('is lost if it kills its wrapper, or cannot kill it', async () => {
    const { job } = await run('kills-parent', 'p=$PPID; kill -9 $p; sleep 1; exit 4');
    if (job.exit_code === 4) assert.deepEqual([job.state, reasonOf(job)], ['failed', 'ScriptFailed']);
    else assert.deepEqual([job.state, reasonOf(job)], ['failed', 'Lost']);
  });

  test('fails if it is not a program', async () => {
    const { job, log } = await run('no-program', 'this-is-no-program --at all');
    assert.deepEqual([job.state, reasonOf(job), job.exit_code], ['failed', 'ScriptFailed', 127]);
    assert.match(log, /this-is-no-program/);
  });
});

describe('outputs', { concurrency: true }, () => {
  test('do not include links, pipes and sockets, with a note for each', async (t) => {
    const script = `
      cd "$TMP_OUTPUT_DIR"
      ln -s /etc/passwd link; ln -s /etc folder-link; ln -s nowhere dangling; mkfifo pipe
      "${process.execPath}" -e 'require("net").createServer().listen("socket", () => process.kill(process.pid, "SIGKILL"))'
      [ -S socket ] && echo there is a socket
      mkdir real; echo real >real/file; true`;
    const { job, log } = await run('odd-files', script, { memory: '1Gi' });
    assert.equal(job.state, 'succeeded');
    assert.deepEqual(await results('odd-files'), ['real/file']);
    for (const name of ['link', 'folder-link', 'dangling']) {
      assert.match(log, new RegExp(`oscar: "${name}" is left out: it is a symbolic link\n`));
    }
    assert.match(log, /oscar: "pipe" is left out: it is a named pipe\n/);
    if (log.includes('there is a socket')) assert.match(log, /oscar: "socket" is left out: it is a socket\n/);
    else t.diagnostic('NOT TESTED: the script could make no socket');
  });

  test('with names that resemble parent paths stay below the output folder', async () => {
    const script = `
      cd "$TMP_OUTPUT_DIR"
      for name in '..x' '...' 'a\\..\\b' '%2e%2e%2fx' 'a b?c#d&e' '.hidden'; do echo x >"$name"; done
      mkdir deep; cd deep; echo escaped >../../escaped 2>/dev/null; true`;
    const { job } = await run('names', script);
    assert.equal(job.state, 'succeeded', job.message);
    assert.deepEqual((await results('names')).toSorted(), [
      '%2e%2e%2fx',
      '...',
      '..x',
      '.hidden',
      'a b?c#d&e',
      'a\\..\\b',
    ]);
    assert.deepEqual(
      (await outside.keys(ADMIN, 'names')).filter((key) => !key.startsWith('out/')),
      ['in/x'],
    );
  });

  for (const path of ['names/../other', '../other', 'names/out/..', 'names/./out/../..']) {
    test(`a path like ${path} is rejected with the definition`, async () => {
      const body = service('escapes', 'true', { output: [{ storage_provider: 'minio.default', path }] });
      const { status, text } = await outside.call('POST', '/system/services', { as: ADMIN, body });
      assert.equal(status, 400, text);
      assert.equal((await outside.call('GET', '/system/services/escapes', { as: ADMIN })).status, 404);
    });
  }

  test('are not read through a link that replaced the output directory', async () => {
    const { job } = await run('linked', 'rmdir "$TMP_OUTPUT_DIR" && ln -s /etc "$TMP_OUTPUT_DIR"; exit 0');
    assert.ok(job.state === 'succeeded' || reasonOf(job) === 'OutputFailed', job.message);
    assert.deepEqual(await results('linked'), []);
  });

  test('without read permission are uploaded, or the job names them', async () => {
    const { job } = await run('locked', 'echo x >"$TMP_OUTPUT_DIR/x"; chmod 000 "$TMP_OUTPUT_DIR/x"');
    if (job.state === 'succeeded') assert.deepEqual(await results('locked'), ['x']);
    else assert.match(job.message, /"x"/);
  });
});
