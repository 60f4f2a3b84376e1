import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { describe, test } from 'node:test';
import { eventually } from '../../../ports/conformance/eventually.ts';
import { embeddedStore } from '../../transfers/embedded-store.fixture.ts';
import { endGroup, SHELLS, STORE, TO_OUTPUTS } from '../pod.fixture.ts';
import { CallPod, frameWith, leave, TOKEN } from './call.fixture.ts';
import { sealCall } from './call-messages.ts';

describe('calls: a pod that answers calls', () => {
  for (const shell of SHELLS) {
    test(`the second call sees no files of the first (${shell.join(' ')})`, async (t) => {
      const pod = await CallPod.start(t, shell);
      const first = await pod.answered(
        `cat "$TMP_INPUT_DIR/in"; echo out >"$TMP_OUTPUT_DIR/one"; mkdir "$TMP_OUTPUT_DIR/.d"; chmod 0 "$TMP_OUTPUT_DIR/.d"
        touch "$TMP_INPUT_DIR/.x"; sleep 30 & export LEFT=behind`,
        { orders: { input: { kind: 'bytes', name: 'in' } }, input: btoa('hello\n'), environment: { FIRST: '1' } },
      );
      assert.equal(first.end?.outcome, 'succeeded', first.end?.message);
      assert.deepEqual([first.log, first.told, first.answer], ['hello\n', 'hello\n', btoa('out\n')]);
      const second = await pod.answered('ls -A "$TMP_INPUT_DIR" "$TMP_OUTPUT_DIR" | grep -v :; echo "[$FIRST$LEFT]"');
      assert.equal(second.end?.outcome, 'succeeded', second.end?.message);
      assert.equal(second.log.trim(), '[]');
      assert.equal(second.answer, undefined);
    });
  }

  test('the script gets its variables unchanged', async (t) => {
    const pod = await CallPod.start(t);
    const environment = {
      QUOTES: `a 'b' "c" \\ $(id) \`id\` $HOME`,
      LINES: 'one\ntwo\n',
      EMPTY: '',
      LETTERS: 'äöü → 🙂',
      LONG: 'x'.repeat(60_000),
      config: 'of a user',
      'not.a-name': 'for others than the shell',
    };
    const names = ['QUOTES', 'LINES', 'EMPTY', 'LETTERS', 'LONG', 'config', 'FROM_IMAGE'];
    const script = names.map((name) => `printf '%s|' "$${name}"`).join('\n');
    const { log } = await pod.answered(script, { environment });
    const values = names.map((name) => ({ ...environment, FROM_IMAGE: 'yes' })[name]);
    assert.equal(log, values.map((value) => `${value}|`).join(''));
  });

  test('the output is uploaded to the stores', async (t) => {
    const { store, access } = await embeddedStore(t);
    const pod = await CallPod.start(t);
    const choice = { orders: { outputs: [TO_OUTPUTS] }, stores: { stores: new Map([[STORE, access]]) } };
    const { end } = await pod.answered('echo x >"$TMP_OUTPUT_DIR/x"', choice);
    assert.deepEqual([end?.reason, end?.exitCode], ['Completed', 0], end?.message);
    assert.deepEqual(
      store.listObjects('outputs', { limit: 10 }).objects.map(({ key }) => key),
      ['allowed/x'],
    );
  });

  test('a failed script reports its exit code, and its log is stored', async (t) => {
    const pod = await CallPod.start(t);
    const { end, log, answer } = await pod.answered('echo oh no >&2; echo x >"$TMP_OUTPUT_DIR/x"; exit 3');
    assert.deepEqual([end?.outcome, end?.reason, end?.exitCode], ['failed', 'ScriptFailed', 3]);
    assert.deepEqual([log, answer], ['oh no\n', undefined]);
  });

  test('an input that cannot be fetched fails the call before the script starts', async (t) => {
    const pod = await CallPod.start(t);
    const { end, log } = await pod.answered('echo ran', { orders: { input: { kind: 'bytes', name: 'in' } } });
    assert.deepEqual([end?.outcome, end?.reason, log], ['failed', 'InputFailed', '']);
    assert.equal((await pod.answered('echo ran')).log, 'ran\n');
  });

  test('a script that exceeds its timeout is ended with its processes', async (t) => {
    const pod = await CallPod.start(t);
    const script = 'trap "echo asked; exit 9" TERM; echo begun; sleep 60 & wait';
    const { end, cause, log } = await pod.answered(script, { timeout: 200 });
    assert.deepEqual([end?.outcome, cause, log], ['failed', 'timeout', 'begun\nasked\n']);
    assert.equal((await pod.answered('echo again')).log, 'again\n');
  });

  test('when the caller disconnects, the script is ended, even if it ignores TERM', async (t) => {
    const pod = await CallPod.start(t);
    const call = await pod.call('trap "" TERM; echo begun; while :; do sleep 1; done');
    await frameWith('log', call);
    await leave(call, pod);
    assert.equal((await pod.answered('echo next')).log, 'next\n');
    assert.ok(!pod.put.has('try-1/log'), 'the log was put to where nobody looks');
  });

  test('output is streamed while the script runs', async (t) => {
    const pod = await CallPod.start(t);
    const call = await pod.call('echo one; until [ -e "$TMP_INPUT_DIR/go" ]; do sleep 0.1; done', {
      environment: { TMP_INPUT_DIR: pod.parts.input },
    });
    const frame = await frameWith('log', call);
    assert.ok('log' in frame && Buffer.from(frame.log, 'base64').toString().endsWith('Z one\n'));
    await leave(call, pod);
  });

  test('the death of the container during a call is reported, and the script does not run twice', async (t) => {
    const pod = await CallPod.start(t);
    const call = await pod.call('echo once; sleep 60');
    await frameWith('log', call);
    endGroup(pod.container);
    pod.startContainer();
    const last = await frameWith('end', call);
    assert.ok('end' in last);
    assert.deepEqual([last.end.outcome, last.end.reason, last.cause], ['failed', 'Lost', 'died']);
    assert.match(pod.put.get('try-1/log')?.toString() ?? '', /^\S+ once\n$/);
    assert.equal((await pod.answered('echo next')).log, 'next\n');
  });

  test('a program that is killed during a call and restarted ends the script', async (t) => {
    const pod = await CallPod.start(t);
    const call = await pod.call('echo begun; sleep 60');
    await frameWith('log', call);
    // The state after a kill; the first program gets no signal.
    pod.startProgram().catch(() => undefined);
    const last = await frameWith('end', call);
    assert.ok('end' in last && last.end.outcome !== 'succeeded');
  });

  test('a pod that is asked to stop finishes the current call', async (t) => {
    const pod = await CallPod.start(t);
    const call = await pod.call('echo begun; sleep 0.5; echo ended');
    await frameWith('log', call);
    const left = pod.leave();
    pod.container.kill('SIGTERM');
    const last = await frameWith('end', call);
    assert.ok('end' in last && last.end.outcome === 'succeeded');
    await left;
    await eventually(() => assert.equal(pod.container.exitCode, 0));
  });

  test('concurrent calls are answered one after the other', async (t) => {
    const pod = await CallPod.start(t);
    const script = 'ls -A "$TMP_OUTPUT_DIR"; echo "$EVENT" >"$TMP_OUTPUT_DIR/x"; sleep 0.3; cat "$TMP_OUTPUT_DIR/x"';
    const answers = await Promise.all(
      [1, 2, 3].map((each) => pod.answered(script, { environment: { EVENT: `${each}` } })),
    );
    assert.deepEqual(
      answers.map(({ end }) => end?.outcome),
      ['succeeded', 'succeeded', 'succeeded'],
    );
  });

  test('a caller without the right token is rejected', async (t) => {
    const pod = await CallPod.start(t);
    const envelope = pod.envelope('echo ran');
    const other = sealCall(envelope, 'another-token');
    const [salt] = sealCall(envelope, TOKEN).authorization.split('.');
    for (const authorization of [
      '',
      `Bearer ${TOKEN}`,
      TOKEN,
      other.authorization,
      `${salt}.${'A'.repeat(43)}`,
      'OSCAR-Call .',
    ]) {
      const { response } = await pod.send(envelope, { headers: { authorization }, body: other.body });
      assert.equal(response.statusCode, 401, authorization);
      assert.doesNotMatch(await text(response), /the-token/);
    }
    assert.deepEqual(readdirSync(pod.parts.config), []);
  });

  test('a call that was changed on its way is rejected', async (t) => {
    const pod = await CallPod.start(t);
    const [one, two] = [sealCall(pod.envelope('echo one'), TOKEN), sealCall(pod.envelope('echo two'), TOKEN)];
    const changed = Buffer.from(one.body);
    changed[5] = (changed[5] ?? 0) ^ 1;
    for (const body of [changed, two.body, one.body.subarray(1), Buffer.alloc(0)]) {
      const headers = { authorization: one.authorization };
      assert.equal((await pod.send('', { headers, body })).response.statusCode, 400);
    }
    assert.deepEqual(readdirSync(pod.parts.config), []);
  });

  test('an invalid call is rejected with the reason', async (t) => {
    const pod = await CallPod.start(t);
    for (const body of ['{', '{"version":2}', 'null']) assert.equal((await pod.send(body)).response.statusCode, 400);
    assert.equal((await pod.answered('echo fine')).log, 'fine\n');
  });
});
