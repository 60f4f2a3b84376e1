import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { getPriority, tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { eventually } from '../../../ports/conformance/eventually.ts';
import { removeTree } from '../attempt-files.ts';
import { openCgroups } from './cgroups.ts';
import { describeIsolation, type IsolationLimit, openSandbox } from './isolation.ts';
import { openIsolatedLauncher } from './launcher.fixture.ts';
import { openProcessTable } from './process-table.ts';
import { compileSupervisor } from './supervisor.ts';
import { createWitness, forkRepeatedly } from './witness.fixture.ts';
import { launchFile, readClaim } from './wrapper.ts';

/** Root and a kernel that allows namespaces; a container often has neither. */
const skip = await whyNot();

async function whyNot(): Promise<string | false> {
  if (process.getuid?.() !== 0) return 'only root can give scripts users of their own: NOT TESTED';
  const directory = makeDirectory();
  try {
    await openSandbox({ directory, userIds: true });
    return false;
  } catch (error) {
    return `${error instanceof Error ? error.message : String(error)}: NOT TESTED`;
  } finally {
    rmSync(directory, { recursive: true });
  }
}

function makeDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-isolation-'));
  chmodSync(directory, 0o711);
  return directory;
}

/** A directory that every user may write to. */
function makeShared(t: TestContext): string {
  const directory = makeDirectory();
  chmodSync(directory, 0o777);
  t.after(() => removeTree(directory));
  return directory;
}

const hasMemory = openCgroups()?.controllers.includes('memory') ?? false;
const cgroups = skip || (hasMemory ? false : 'this machine has no memory cgroups: NOT TESTED');

/** Everything that a script can try against its wrapper and against processes of other scripts. */
const ATTACK = `
  for signal in STOP TERM KILL; do kill -$signal $PPID; kill -$signal 1; done
  for process in /proc/[0-9]*; do cat "$process/environ" | tr '\\0' '\\n' | grep SECRET; done
  for file in launch-1 launch.json exit claim-1; do
    echo "exit 0" >"$TMPDIR/../$file"; echo "exit 0" >"$HOME/../$file"; rm -f "$HOME/../$file"
  done
  for fd in 1 3 4 5 6; do echo "exit 0" >/proc/$PPID/fd/$fd; done`;

test('isolation: a script that attacks its wrapper and outlives its end reaches nothing of the next one', {
  skip,
}, async (t) => {
  const witness = createWitness(t);
  const uids = { first: 61_300, count: 1 };
  const { launcher, order, directory } = await openIsolatedLauncher(t, { uids }, [witness.directory]);
  const first = order(`${witness.inherit} ${forkRepeatedly()} { ${ATTACK}; } 2>/dev/null; exit 7`, {
    environment: { SECRET: 'first' },
  });
  const run = await launcher.launch(first);
  assert.equal((await run.ended).exitCode, 7);
  assert.ok(witness.allGone());
  await launcher.remove(first.name);
  assert.match(readFileSync(launchFile(first.directory.state, 1), 'utf8'), /^\d+\nexit 7\n$/);

  const second = order(`echo "$PPID $SECRET"; ls /proc | grep '^[0-9]' | wc -l; cat /proc/1/environ; exit 3`, {
    environment: { SECRET: 'second' },
  });
  assert.equal((await (await launcher.launch(second)).ended).exitCode, 3);
  // PID 1, the shell, and the three programs of the pipeline.
  assert.match(second.text(), /^1 second\n[2-5]\n.*Permission denied\n$/);
  assert.deepEqual(leftCgroups(directory), []);
});

/** The cgroups that scripts of this test have left, in all hierarchies. */
function leftCgroups(directory: string): string[] {
  const mounts = readFileSync('/proc/self/mounts', 'utf8').split('\n');
  const hierarchies = mounts.map((line) => line.split(' ')).filter(([, , type]) => type?.startsWith('cgroup'));
  return hierarchies.flatMap(([, path = '']) => {
    const parent = join(path, 'oscar');
    if (!existsSync(parent)) return [];
    const names = readdirSync(parent, { withFileTypes: true }).filter((entry) => entry.isDirectory());
    return names.map(({ name }) => name).filter((name) => name.startsWith(cgroupPrefixOf(directory)));
  });
}

const cgroupPrefixOf = (directory: string) => `${createHash('sha256').update(directory).digest('hex').slice(0, 16)}-`;

test('isolation: a script sees neither other scripts nor files of the manager', { skip }, async (t) => {
  const uids = { first: 61_310, count: 4 };
  const { launcher, order, directory } = await openIsolatedLauncher(t, { uids });
  const one = order('echo begun; sleep 60');
  await launcher.launch(one);
  await eventually(() => assert.equal(one.text(), 'begun\n'));
  writeFileSync(join(directory, 'secret'), 'secret', { mode: 0o644 });
  const two = order(`
    cat ${directory}/secret; ls ${one.directory.root}; ls ${directory}/attempts/*/state/launch* ${directory}/pipes
    kill -9 ${readClaim(one.directory.state, 1)}
    find ${directory} -name 'launch*' -o -name pipe -o -name secret`);
  await (await launcher.launch(two)).ended;
  assert.doesNotMatch(two.text(), /^secret$|^input$|launch-\d+$|pipe$/m);
  assert.equal(two.text().match(/no such|denied/gi)?.length, 6, two.text());
});

test('isolation: /tmp, /var/tmp and /dev/shm belong to one script and are gone after it', { skip }, async (t) => {
  const uids = { first: 61_320, count: 1 };
  const { launcher, order } = await openIsolatedLauncher(t, { uids });
  const mark = `oscar-mark-${process.pid}`;
  const [one, two] = [0, 1].map(() =>
    order(`for d in /tmp /var/tmp /dev/shm; do ls $d/${mark}$d; mkdir -p $d/${mark}$d && echo made; done 2>/dev/null`),
  );
  for (const each of [one, two]) {
    assert.ok(each);
    await (await launcher.launch(each)).ended;
    await launcher.remove(each.name);
    assert.equal(each.text(), 'made\nmade\nmade\n');
    for (const path of ['/tmp', '/var/tmp', '/dev/shm']) assert.equal(existsSync(join(path, mark)), false);
  }
});

test('isolation: the machine is read-only for scripts, except for shared directories', { skip }, async (t) => {
  const [shared, other] = [makeShared(t), makeShared(t)];
  const uids = { first: 61_321, count: 1 };
  const { launcher, order } = await openIsolatedLauncher(t, { uids }, [shared]);
  const made = order(`echo x >${shared}/x; [ -e ${other} ] && echo visible; echo x >/run/lock/oscar-x; umask`);
  await (await launcher.launch(made)).ended;
  assert.equal(readFileSync(join(shared, 'x'), 'utf8'), 'x\n');
  assert.equal(statSync(join(shared, 'x')).mode & 0o777, 0o600);
  assert.match(made.text(), /^.*(Read-only file system|nonexistent|No such file).*\n0077\n$/i);
});

test('isolation: a script gets no privileges from a setuid program, and writes no core dumps', { skip }, async (t) => {
  const shared = makeShared(t);
  copyFileSync('/usr/bin/id', join(shared, 'id'));
  chmodSync(join(shared, 'id'), 0o4755);
  const uids = { first: 61_330, count: 1 };
  const { launcher, order } = await openIsolatedLauncher(t, { uids }, [shared]);
  const made = order(
    `${shared}/id -u; ${shared}/id -G; grep -E '^(Cap|NoNewPrivs)' /proc/self/status; ulimit -Hc; nice`,
  );
  await (await launcher.launch(made)).ended;
  const [uid, groups, ...status] = made.text().trim().split('\n');
  assert.deepEqual([uid, groups], ['61330', '61330']);
  assert.deepEqual(
    status.map((line) => line.split(/\s+/).at(-1)),
    [...Array.from({ length: 5 }, () => '0000000000000000'), '1', '0', '5'],
  );
});

test("isolation: the supervisor has the manager's priority, and only the script is nicer and in cgroups", {
  skip: cgroups,
}, async (t) => {
  const { launcher, order, directory } = await openIsolatedLauncher(t, { uids: { first: 61_335, count: 1 } });
  const made = order('nice; cat /proc/1/cgroup /proc/self/cgroup; echo begun; sleep 60');
  await launcher.launch(made);
  await eventually(() => assert.match(made.text(), /begun/));
  assert.equal(getPriority(Number(readClaim(made.directory.state, 1))), getPriority());
  const [nice, ...joined] = made.text().trim().split('\n').slice(0, -1);
  assert.equal(Number(nice), getPriority() + 5);
  const ours = joined.map((line) => line.includes(`/oscar/${cgroupPrefixOf(directory)}`));
  assert.deepEqual(
    [ours.slice(0, ours.length / 2).includes(true), ours.slice(ours.length / 2).includes(true)],
    [false, true],
  );
});

test('isolation: a fork bomb is bounded, and killed', { skip }, async (t) => {
  const witness = createWitness(t);
  const uids = { first: 61_340, count: 1 };
  const { launcher, order } = await openIsolatedLauncher(t, { uids, maxProcesses: 40 }, [witness.directory]);
  const made = order(`${witness.inherit} echo here >&9; b() { b & b & sleep 0.01; b; }; b 2>/dev/null; sleep 60`);
  const run = await launcher.launch(made);
  await eventually(() => assert.ok(witness.begun()));
  const count = (await openProcessTable().read(61_340)).length;
  assert.ok(count <= 40, `${count} processes`);
  await run.signal('KILL');
  await run.ended;
  assert.ok(witness.allGone());
});

for (const { name, script } of [
  { name: 'in /dev/shm', script: 'head -c 200000000 /dev/zero >/dev/shm/x; sleep 60' },
  { name: 'in a process whose failure the script ignores', script: 'head -c 200000000 /dev/zero | tail; sleep 60' },
]) {
  test(`isolation: memory ${name} counts, and exceeding it is OutOfMemory`, { skip: cgroups }, async (t) => {
    const uids = { first: 61_350, count: 1 };
    const { launcher, order, directory } = await openIsolatedLauncher(t, { uids });
    const made = order(script, { demand: { cpu: 100, memory: 32 * 2 ** 20, gpu: 0 } });
    assert.equal((await (await launcher.launch(made)).ended).cause, 'out-of-memory');
    assert.deepEqual(leftCgroups(directory), []);
  });
}

test('isolation: deleted files that a script keeps open count as disk', { skip }, async (t) => {
  const uids = { first: 61_355, count: 1 };
  const { launcher, order } = await openIsolatedLauncher(t, { uids, maxDisk: 10_000_000 });
  const made = order('exec 8>/tmp/x; rm /tmp/x; head -c 20000000 /dev/zero >&8; sleep 60');
  assert.equal((await (await launcher.launch(made)).ended).cause, 'disk-full');
});

test('isolation: the processor share follows the demand', { skip: cgroups }, () => {
  const shares = (cpu: number) => {
    const plan = openCgroups()?.plan('x', { cpu, memory: 0, gpu: 0 }, 0) ?? [];
    return Number(plan.map(([, value]) => /cpu\.(?:shares|weight)=(\d+)$/.exec(value)?.[1]).find(Boolean));
  };
  assert.ok(shares(100) < shares(1000) && shares(1000) < shares(8000));
});

test('isolation: a script whose supervisor is killed is killed with it, also under the next manager', {
  skip,
}, async (t) => {
  const witness = createWitness(t);
  const uids = { first: 61_360, count: 2 };
  const { launcher, open, order, directory } = await openIsolatedLauncher(t, { uids }, [witness.directory]);
  for (const next of [launcher, undefined]) {
    const made = order(`${witness.inherit} ${forkRepeatedly()} sleep 60`);
    const run = await launcher.launch(made);
    await eventually(() => assert.ok(witness.begun()));
    const supervisor = readClaim(made.directory.state, 1);
    assert.ok(typeof supervisor === 'number');
    if (!next) await launcher.close();
    process.kill(supervisor, 'SIGKILL');
    const later = next ?? open();
    const ended = await (next ? run : await later.find(made))?.ended;
    assert.deepEqual([ended?.exitCode, ended?.cause], [undefined, next ? 'signal' : 'lost']);
    await eventually(() => assert.ok(witness.allGone()));
    await later.remove(made.name);
    assert.deepEqual(leftCgroups(directory), []);
    if (!next) await later.close();
  }
});

test('isolation: a supervisor that is stopped does not keep its script alive', { skip }, async (t) => {
  const witness = createWitness(t);
  const uids = { first: 61_365, count: 1 };
  const options = { uids, killTimeoutMs: 300 };
  const { launcher, order } = await openIsolatedLauncher(t, options, [witness.directory]);
  const made = order(`${witness.inherit} ${forkRepeatedly()} sleep 60`);
  const run = await launcher.launch(made);
  await eventually(() => assert.ok(witness.begun()));
  process.kill(Number(readClaim(made.directory.state, 1)), 'SIGSTOP');
  await run.signal('KILL');
  assert.notEqual((await run.ended).exitCode, 0);
  await eventually(() => assert.ok(witness.allGone()));
});

test('isolation: an order that is cut off starts nothing', { skip }, async (t) => {
  const directory = makeDirectory();
  t.after(() => removeTree(directory));
  const launch = join(directory, 'launch-1');
  writeFileSync(launch, '');
  for (const part of ['', 'script\0/x', 'script\0/x\0home\0/x\0', 'unknown\0x\0end\0']) {
    writeFileSync(join(directory, 'order'), part);
    const words = ['-c', 'exec "$0" "$1" 3<&1 4>>"$1" 5<"$1" 6<"$2"', await compileSupervisor(), launch];
    const child = spawn('/bin/sh', [...words, join(directory, 'order')], { stdio: ['ignore', 'pipe', 'ignore'] });
    const exited = once(child, 'exit');
    assert.match(await text(child.stdout), /^oscar: the script was not started: the order is incomplete/);
    assert.deepEqual(await exited, [null, 'SIGKILL']);
    assert.equal(readFileSync(launch, 'utf8'), '');
  }
});

test('isolation: a supervisor without a manager exits when its directory is removed', { skip }, async (t) => {
  const { launcher, order } = await openIsolatedLauncher(t, { uids: { first: 61_370, count: 1 } });
  const made = order('echo begun; exit 0');
  await launcher.launch(made);
  await launcher.close();
  const { state } = made.directory;
  await eventually(() => assert.match(readFileSync(launchFile(state, 1), 'utf8'), /exit 0/));
  const supervisor = Number(readClaim(state, 1));
  const exists = async () => (await openProcessTable().read()).some(({ pid, zombie }) => pid === supervisor && !zombie);
  assert.equal(await exists(), true);
  rmSync(state, { recursive: true });
  process.kill(supervisor, 'SIGHUP');
  await eventually(async () => assert.equal(await exists(), false));
});

test('isolation: a manager that is not root runs scripts in a user namespace', { skip }, async (t) => {
  const directory = makeShared(t);
  const program = join(import.meta.dirname, 'isolation.child.ts');
  const child = spawn(process.execPath, [program, directory], {
    uid: 65_534,
    gid: 65_534,
    cwd: '/',
    env: { PATH: process.env['PATH'] ?? '' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [printed, problem] = await Promise.all([text(child.stdout), text(child.stderr)]);
  if (/user namespace|clone|EACCES|not permitted/i.test(problem))
    return t.skip(`another user cannot run it here: NOT TESTED: ${problem.slice(0, 200)}`);
  const { exitCode, log, launch, isolation } = JSON.parse(printed);
  assert.deepEqual([exitCode, isolation.namespaces, isolation.user_ids], [7, true, false], printed + problem);
  assert.match(launch, /^\d+\nexit 7\n$/);
  assert.match(log, /^65534 1\n0000000000000000\n/);
  assert.doesNotMatch(log, /FORGED|SECRET/);
  assert.equal(existsSync(join(directory, 'x')), false);
});

test('isolation: the sentence about it names what is missing', () => {
  const none = { user_ids: false, namespaces: false, enforced: [], reason: 'there is no compiler' };
  assert.match(describeIsolation(none), /not at all: no namespaces, because there is no compiler/);
  const all = { user_ids: true, namespaces: true, enforced: ['memory', 'processes', 'cpu'] satisfies IsolationLimit[] };
  assert.match(
    describeIsolation(all),
    /own namespaces and user ids; the kernel enforces memory, processes, cpu; disk is sampled/,
  );
});

test('isolation: without a compiler the reason says to install one', async (t) => {
  const directory = makeDirectory();
  t.after(() => removeTree(directory));
  const compile = () => compileSupervisor(directory, ['/nowhere/cc']);
  if (process.platform === 'linux') await assert.rejects(compile(), /install a C compiler: .*\/nowhere\/cc/);
  await assert.rejects(openSandbox({ directory, userIds: false }, compile));
});
