import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { eventually, keyOf, LOG_BEGINS, Outside, reasonOf, service } from '../support/jobs.ts';
import { ADMIN, startTestManager, type TestManager } from '../support/manager.ts';

let manager: TestManager;
let outside: Outside;
before(async () => {
  manager = await startTestManager();
  outside = new Outside(manager.url);
});
after(() => manager[Symbol.asyncDispose]());

const UPPER = 'tr a-z A-Z <"$INPUT_FILE_PATH" >"$TMP_OUTPUT_DIR/$(basename "$INPUT_FILE_PATH").up"';
const minio = (path: string, more = {}) => ({ storage_provider: 'minio.default', path, ...more });

describe('uploaded file', () => {
  test('is read by the script, and the output of the script is in the output bucket', async () => {
    await outside.create(ADMIN, service('plain', `echo hello; ${UPPER}`));
    await outside.put(ADMIN, 'plain/in/some file.txt', 'some text');
    const job = await outside.onlyJob('plain');
    assert.equal(await outside.get(ADMIN, 'plain/out/some file.txt.up'), 'SOME TEXT');
    assert.deepEqual([job.phase, reasonOf(job), job.exit_code, job.trigger], ['Succeeded', 'Completed', 0, 'storage']);
    assert.deepEqual(job.object, { bucket: 'plain', key: 'in/some file.txt' });
    assert.deepEqual(
      job.timeline.map(({ state }) => state),
      ['accepted', 'queued', 'running', 'succeeded'],
    );
    assert.match(await outside.log('plain', job.id), new RegExp(`^${LOG_BEGINS}hello\\n$`));
    const { json } = await outside.call('GET', '/system/logs/plain', { as: ADMIN });
    assert.equal((json() as { jobs: Record<string, { status: string }> }).jobs[job.id]?.status, 'Succeeded');
  });

  test('works with several inputs, and each output receives what its prefix and suffix match', async () => {
    const script = `
      mkdir "$TMP_OUTPUT_DIR/pics"
      for name in a.txt b.csv pics/c.png pics/d.txt; do echo $name >"$TMP_OUTPUT_DIR/$name"; done`;
    await outside.create(
      ADMIN,
      service('many', script, {
        input: [minio('many/one'), minio('many-other/two/deep')],
        output: [
          minio('many/all'),
          minio('many/texts', { suffix: ['.txt', '.csv'] }),
          minio('many-pics', { prefix: ['pics/'] }),
          minio('many/both', { prefix: ['pics/'], suffix: ['.txt'] }),
        ],
      }),
    );
    await outside.put(ADMIN, 'many/one/x', 'x');
    await outside.put(ADMIN, 'many/elsewhere/x', 'x');
    await outside.put(ADMIN, 'many-other/two/deep/er/y', 'y');
    await outside.put(ADMIN, 'many-other/two/z', 'z');
    const jobs = await outside.allEnded('many', 2);
    assert.deepEqual(jobs.map(keyOf).toSorted(), ['one/x', 'two/deep/er/y']);
    assert.deepEqual(await outside.keys(ADMIN, 'many'), [
      'all/a.txt',
      'all/b.csv',
      'all/pics/c.png',
      'all/pics/d.txt',
      'both/pics/d.txt',
      'elsewhere/x',
      'many-pics/pics/c.png',
      'many-pics/pics/d.txt',
      'one/x',
      'texts/a.txt',
      'texts/b.csv',
      'texts/pics/d.txt',
    ]);
  });

  test('whose script fails leaves nothing in the output, and the exit code in the record', async () => {
    await outside.create(ADMIN, service('fails', `${UPPER}; echo oh no >&2; exit 3`));
    await outside.put(ADMIN, 'fails/in/x', 'x');
    const job = await outside.onlyJob('fails');
    assert.deepEqual([job.phase, reasonOf(job), job.exit_code], ['Failed', 'ScriptFailed', 3]);
    assert.match(job.message, /exit code 3/);
    assert.deepEqual(await outside.keys(ADMIN, 'fails'), ['in/x']);
    assert.match(await outside.log('fails', job.id), /oh no\n/);
  });

  test('passes through a chain of two services, with one job each', async () => {
    await outside.create(ADMIN, service('first', UPPER, { output: [minio('second/in')] }));
    await outside.create(ADMIN, service('second', 'cp "$INPUT_FILE_PATH" "$TMP_OUTPUT_DIR"'));
    for (const [count, name] of ['a', 'b'].entries()) {
      await outside.put(ADMIN, `first/in/${name}`, `text of ${name}`);
      await outside.allEnded('second', count + 1);
      assert.equal(await outside.get(ADMIN, `second/out/${name}.up`), `TEXT OF ${name.toUpperCase()}`);
      await outside.allEnded('first', count + 1);
    }
  });

  test('with the same name as before is another job', async () => {
    await outside.create(ADMIN, service('again', UPPER));
    await outside.put(ADMIN, 'again/in/x', 'one');
    await outside.onlyJob('again');
    await outside.put(ADMIN, 'again/in/x', 'two');
    await outside.allEnded('again', 2);
    assert.equal(await outside.get(ADMIN, 'again/out/x.up'), 'TWO');
  });

  test('after an update of the service is read by the new script', async () => {
    await outside.create(ADMIN, service('updated', 'echo old >"$TMP_OUTPUT_DIR/which"'));
    await outside.put(ADMIN, 'updated/in/x', 'x');
    await outside.onlyJob('updated');
    assert.equal(await outside.get(ADMIN, 'updated/out/which'), 'old\n');
    const body = service('updated', 'echo $GREETING >"$TMP_OUTPUT_DIR/which"', {
      environment: { variables: { GREETING: 'new' } },
      output: [minio('updated/out2')],
    });
    assert.equal((await outside.call('PUT', '/system/services', { as: ADMIN, body })).status, 204);
    await outside.put(ADMIN, 'updated/in/y', 'y');
    await outside.allEnded('updated', 2);
    assert.equal(await outside.get(ADMIN, 'updated/out2/which'), 'new\n');
    assert.equal(await outside.get(ADMIN, 'updated/out/which'), 'old\n');
  });

  test('among forty concurrent ones is read once', async () => {
    await outside.create(ADMIN, service('forty', UPPER, { cpu: '0.1', memory: '16Mi' }));
    const names = Array.from({ length: 40 }, (_, n) => `f${String(n).padStart(3, '0')}`);
    await Promise.all(names.map((name) => outside.put(ADMIN, `forty/in/${name}`, name)));
    const jobs = await outside.allEnded('forty', 40);
    assert.deepEqual(
      jobs.map(keyOf).toSorted(),
      names.map((name) => `in/${name}`),
    );
    assert.deepEqual(
      (await outside.keys(ADMIN, 'forty')).filter((key) => key.startsWith('out/')),
      names.map((name) => `out/${name}.up`),
    );
  });
});

test('/system/info says that images are not used', async () => {
  const { json } = await outside.call('GET', '/system/info', { as: ADMIN });
  assert.match((json() as { runtime: string }).runtime, /images are not used/);
});

test('expiry: ended jobs are removed after TTL_JOB', async () => {
  await using brief = await startTestManager({ TTL_JOB: '1' });
  const there = new Outside(brief.url);
  const token = await there.create(ADMIN, service('brief', 'echo hello'));
  const id = await there.submit(token, 'brief', 'x');
  await eventually(async () => {
    assert.equal((await there.call('GET', `/system/jobs/brief/${id}`, { as: ADMIN })).status, 404);
    assert.equal((await there.call('GET', `/system/logs/brief/${id}`, { as: ADMIN })).status, 404);
  });
});
