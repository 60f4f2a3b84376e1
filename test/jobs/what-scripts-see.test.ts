import assert from 'node:assert/strict';
import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Meeting, Outside, service } from '../support/jobs.ts';
import { ADMIN, PASSWORD, temporaryDirectory } from '../support/manager.ts';
import { startPeople } from '../support/people.ts';
import { startProcess } from '../support/process.ts';

/** Scripts run as their own users only if the manager has the right to switch users. */
const skip = process.getuid?.() === 0 ? false : 'NOT TESTED: scripts run as the manager does, since it is not root';

const { issuer, alice, bob, settings } = await startPeople();
const meeting = new Meeting();
const directory = temporaryDirectory();
const afterwards: (() => void)[] = [];
let outside: Outside;
/** Secrets that only their owner may know, by their description. */
const secrets = new Map<string, string>();
/** Alice's job, which runs during all tests. */
let victim: string;

before(async () => {
  const { listening } = startProcess({ after: (end) => void afterwards.push(end as () => void) }, directory, {
    ...settings,
  });
  outside = new Outside(await listening);
  const script = `cp "$INPUT_FILE_PATH" "$TMP_OUTPUT_DIR/made"; ${meeting.say('begun', 'yes')}; ${meeting.wait('never')}`;
  const environment = { variables: { PLAIN: 'a variable of Alice' }, secrets: { KEPT: 'a secret of Alice' } };
  const token = await outside.create(alice, service('alices', script, { environment }));
  await outside.put(alice, 'alices/in/x', 'an input of Alice');
  await meeting.heard('begun');
  victim = (await outside.jobs(alice, 'alices'))[0]?.id ?? '';
  const [root, hers] = await Promise.all([outside.provider(ADMIN), outside.provider(alice)]);
  const pairs: Record<string, string> = {
    'the password': PASSWORD,
    'the access key of the manager': root.access_key,
    'the secret key of the manager': root.secret_key,
    'the access key of Alice': hers.access_key,
    'the secret key of Alice': hers.secret_key,
    'the login of Alice': alice,
    'the token of her service': token.slice('Bearer '.length),
    'a variable of her service': 'a variable of Alice',
    'a secret of her service': 'a secret of Alice',
    'her input': 'an input of Alice',
  };
  for (const [name, value] of Object.entries(pairs)) secrets.set(name, value);
});
after(async () => {
  await outside.call('DELETE', '/system/services/alices', { as: ADMIN });
  for (const end of afterwards) end();
  await issuer.stop();
  rmSync(directory, { recursive: true, force: true });
  meeting[Symbol.dispose]();
});

/** The output of a script of Bob with this input. */
async function spied(name: string, script: string, input: string): Promise<string> {
  const token = await outside.create(bob, service(name, script));
  const id = await outside.submit(token, name, input);
  assert.equal((await outside.ended(name, id)).state, 'succeeded');
  return outside.log(name, id);
}

/** The access keys that the embedded store issues for jobs have this form. */
const JOB_KEY = /OSCAR[0-9A-F]{15}/;

function assertNoSecret(text: string): void {
  assert.doesNotMatch(text, JOB_KEY);
  for (const [name, secret] of secrets) assert.ok(!text.includes(secret), `${name} can be read`);
}

describe('script isolation: a script', () => {
  const CONTRACT = [
    'EVENT',
    'INPUT_FILE_PATH',
    'JOB_UUID',
    'OSCAR_SERVICE_BASE_PATH',
    'OSCAR_SERVICE_NAME',
    'OSCAR_SERVICE_TOKEN',
    'RESOURCE_ID',
    'TMP_INPUT_DIR',
    'TMP_OUTPUT_DIR',
  ];
  const USUAL = ['HOME', 'LANG', 'OLDPWD', 'PATH', 'PWD', 'SHLVL', 'TMPDIR', 'TZ', '_'];

  test('has exactly the documented variables and those of every process', async () => {
    const log = await spied('own-env', 'echo "---"; env', 'x');
    const names = log
      .slice(log.indexOf('---\n') + 4)
      .trim()
      .split('\n')
      .map((line) => line.slice(0, line.indexOf('=')));
    assert.deepEqual(names.filter((name) => !USUAL.includes(name)).toSorted(), CONTRACT);
    assertNoSecret(log);
  });

  test('finds no secret in the arguments of any process', async () => {
    const log = await spied(
      'arguments',
      `for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline; echo; done 2>/dev/null`,
      'x',
    );
    // In a namespace it sees no process but its own.
    assert.match(log, /oscar\.js serve|^\S*supervisor\S* /m);
    assertNoSecret(log);
  });

  test('can read the environment of its own processes only', { skip }, async () => {
    const script = `
      me=$(id -u)
      for p in /proc/[0-9]*; do
        text=$(tr '\\0' '\\n' <$p/environ 2>/dev/null) && [ -n "$text" ] || continue
        echo "environ $(awk '/^Uid:/ { print $2 }' $p/status) $me"
        echo "$text"
      done 2>/dev/null
      for p in $PPID $(awk '/^PPid:/ { print $2 }' /proc/$PPID/status); do cat /proc/$p/environ; done 2>/dev/null
      true`;
    const log = await spied('environments', script, 'x');
    const seen = [...log.matchAll(/^environ (\d*) (\d+)$/gm)];
    assert.ok(seen.length > 0, 'it has seen its own');
    for (const [, whose, mine] of seen) assert.equal(whose, mine);
    assertNoSecret(log);
  });

  test('cannot read files of the manager or of another job', { skip }, async () => {
    const files = readdirSync(directory, { recursive: true, withFileTypes: true })
      .filter((entry) => !entry.isDirectory())
      .map((entry) => join(entry.parentPath, entry.name));
    assert.ok(
      files.some((path) => path.endsWith(join(victim, 'output', 'made'))),
      'the files of the other job are among them',
    );
    assert.ok(
      files.some((path) => path.includes('.db') || path.includes('.sqlite')),
      'and the database',
    );
    const script = `
      while read -r path; do
        if [ -r "$path" ]; then echo "readable $path"; cat "$path"; fi
        if [ -w "$path" ]; then echo "writable $path"; fi
      done <"$INPUT_FILE_PATH"
      ls ${directory} "$TMP_OUTPUT_DIR/../.." "$TMP_OUTPUT_DIR/../../${victim}" 2>/dev/null
      cat "$TMP_OUTPUT_DIR/../../${victim}"/*/* 2>/dev/null
      echo done`;
    const log = await spied('files', script, `${files.join('\n')}\n`);
    assert.match(log, /^oscar: .*\ndone\n$/);
  });

  test('cannot kill the manager or another job, nor write its own record', { skip }, async () => {
    const script = `
      me=$(id -u)
      for p in /proc/[0-9]*; do
        whose=$(awk '/^Uid:/ { print $2 }' $p/status 2>/dev/null)
        if [ "\${whose:-$me}" != "$me" ] && kill -0 \${p#/proc/} 2>/dev/null; then echo "could end $p"; fi
      done
      for file in log attempt.json end.json answer state/launch.json; do
        echo forged >"$TMP_OUTPUT_DIR/../$file"
      done 2>/dev/null
      ls "$TMP_OUTPUT_DIR/.." 2>/dev/null; echo tried`;
    const log = await spied('ends-others', script, 'x');
    assert.match(log, /^oscar: .*\ntried\n$/);
    assert.equal((await outside.job(alice, 'alices', victim)).state, 'running');
    assert.equal((await outside.call('GET', '/health')).status, 200);
  });
});
