import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { launcherOn, orderOf, runToEnd } from './attempts.ts';
import { BUSYBOX, BUSYBOX_USER } from './busybox.ts';
import { Daemon } from './daemon.ts';

/** The file of a limit, in either version of control groups. */
const limitFile = (first: string, second: string) =>
  `cat /sys/fs/cgroup/${first} 2>/dev/null || cat /sys/fs/cgroup/${second}`;

/** CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID. */
const FEW_CAPABILITIES = '00000000000000fb';

describe('limits of a container', { timeout: 120_000 }, () => {
  let daemon: Daemon;
  before(async () => {
    daemon = await Daemon.start();
  });
  after(() => daemon.stop());

  test('memory and CPU are limited to the demand', async (t) => {
    const script = [
      limitFile('memory/memory.limit_in_bytes', 'memory.max'),
      limitFile('cpu/cpu.cfs_quota_us', 'cpu.max | cut -d" " -f1'),
      limitFile('pids/pids.max', 'pids.max'),
    ].join('\n');
    const order = orderOf(t, script, { demand: { cpu: 1_500, memory: 50 * 2 ** 20, gpu: 0 } });
    await runToEnd(t, daemon, order);
    assert.deepEqual(order.lines(), [String(50 * 2 ** 20), '150000', '4096']);
  });

  test('more CPUs than the machine has and less memory than the engine needs are accepted', async (t) => {
    const order = orderOf(t, 'echo ran', { demand: { cpu: 512_000, memory: 2 ** 20, gpu: 0 } });
    assert.equal((await runToEnd(t, daemon, order)).exitCode, 0);
  });

  const users = [
    { image: BUSYBOX, who: 'root', effective: FEW_CAPABILITIES },
    { image: BUSYBOX_USER, who: 'another user', effective: '0000000000000000' },
  ];
  for (const { image, who, effective } of users) {
    test(`${who} of the image has few rights, and can get no others`, async (t) => {
      const order = orderOf(t, 'grep -E "^(CapEff|CapBnd|NoNewPrivs|Seccomp):" /proc/self/status', { image });
      await runToEnd(t, daemon, order);
      const status = Object.fromEntries(order.lines().map((line) => line.split(/:\s+/)));
      assert.deepEqual(status, { CapEff: effective, CapBnd: FEW_CAPABILITIES, NoNewPrivs: '1', Seccomp: '2' });
    });
  }

  test("it has no access to the engine's socket, nor to processes, networks and devices of the host", async (t) => {
    const order = orderOf(
      t,
      'ls /var/run/docker.sock /run/docker.sock 2>/dev/null; ls /sys/class/net; ls -d /dev/[sv]d*; ls -d /proc/[0-9]* | wc -l',
    );
    await runToEnd(t, daemon, order);
    const lines = order.lines();
    assert.equal(lines[0], 'lo');
    assert.ok(lines.length === 3 && Number(lines[2]) < 8, order.text());
  });

  test('an init process reaps what the script leaves behind', async (t) => {
    const order = orderOf(
      t,
      'tr "\\0" " " < /proc/1/cmdline | cut -d" " -f1; (sh -c "sleep 0.1 & exec true"); sleep 0.3; ps -o stat | grep -c Z',
    );
    await runToEnd(t, daemon, order);
    assert.deepEqual(order.lines(), ['/sbin/docker-init', '0']);
  });

  test('a script that exceeds its memory is killed, with the reason', async (t) => {
    const order = orderOf(t, 'echo begins; x=$(head -c 200000000 /dev/zero | tr "\\0" x); echo "not reached ${#x}"');
    const { cause } = await runToEnd(t, daemon, order);
    assert.equal(cause, 'out-of-memory');
    assert.equal(order.lines()[0], 'begins');
  });

  test('if one process exceeds the memory, the whole script is killed', async (t) => {
    const order = orderOf(t, 'sh -c \'x=$(head -c 200000000 /dev/zero | tr "\\0" x)\'; sleep 1000');
    assert.equal((await runToEnd(t, daemon, order)).cause, 'out-of-memory');
  });

  test('background processes end with the script', async (t) => {
    const order = orderOf(
      t,
      'setsid sleep 98761 & nohup sleep 98761 & (trap "" TERM; sleep 98761) & sleep 0.1; exit 7',
    );
    assert.equal((await runToEnd(t, daemon, order)).exitCode, 7);
    assert.deepEqual(processesWith('98761'), []);
  });

  test('a fork bomb stays below the limit and can be removed', async (t) => {
    const launcher = launcherOn(t, daemon, { processes: 50 });
    const order = orderOf(t, 'i=0; while [ $i -lt 200 ]; do sleep 98762 & i=$((i+1)); done; wait');
    const run = await launcher.launch(order);
    await eventually(() => assert.match(order.text(), /can't fork/));
    assert.ok(processesWith('98762').length <= 50);
    await run.signal('KILL');
    await run.ended;
    assert.deepEqual(processesWith('98762'), []);
    await launcher.remove(order.name);
  });

  test('after SIGTERM, the script can finish its work', async (t) => {
    const launcher = launcherOn(t, daemon);
    const order = orderOf(t, 'trap "echo tidies; exit 4" TERM; echo ready; while true; do sleep 0.05; done');
    const run = await launcher.launch(order);
    await eventually(() => assert.equal(order.text(), 'ready\n'));
    await run.signal('TERM');
    const { exitCode, cause } = await run.ended;
    assert.deepEqual(
      { exitCode, cause, printed: order.text() },
      { exitCode: 4, cause: undefined, printed: 'ready\ntidies\n' },
    );
    await launcher.remove(order.name);
  });

  test('a script that ignores SIGTERM is killed; stopping an ended one is a no-op', async (t) => {
    const launcher = launcherOn(t, daemon);
    const order = orderOf(t, 'trap "" TERM; echo ready; while true; do sleep 98763; done');
    const run = await launcher.launch(order);
    await eventually(() => assert.equal(order.text(), 'ready\n'));
    await run.signal('TERM');
    assert.equal(processesWith('98763').length, 1);
    await run.signal('KILL');
    const { exitCode, cause, signal } = await run.ended;
    assert.deepEqual({ exitCode, cause, signal }, { exitCode: undefined, cause: 'signal', signal: 'SIGKILL' });
    assert.deepEqual(processesWith('98763'), []);
    await run.signal('KILL');
    await launcher.remove(order.name);
    await run.signal('TERM');
    await launcher.remove(order.name);
  });

  test('an exit code above 128 is an exit code', async (t) => {
    const { exitCode, cause } = await runToEnd(t, daemon, orderOf(t, 'exit 137'));
    assert.deepEqual({ exitCode, cause }, { exitCode: 137, cause: undefined });
  });
});

/** Processes of this machine whose arguments contain the word. */
function processesWith(word: string): string[] {
  return readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'latin1').split('\0').slice(1).includes(word);
    } catch {
      return false;
    }
  });
}
