import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe } from 'node:test';
import type { Attempt, Ended } from '../../model/job/index.ts';
import { eventually } from './eventually.ts';
import {
  endOf,
  log,
  type MakeRunner,
  RunnerBench,
  type RunnerTraits,
  type RunnerUnderTest,
  run,
  untilPrinted,
} from './runner-under-test.ts';

/** What a runner of hostile scripts is configured with. */
export const HOSTILE_LIMITS = {
  /** Processes of one script, if the runner has such a limit. */
  processes: 64,
  /** Bytes on the disk. */
  disk: 32 * 2 ** 20,
};

/** Why a runner cannot hold against an attack. */
type Attack = (typeof ATTACKS)[number]['name'];

export interface HostileTraits extends RunnerTraits {
  /** The capabilities that a script may have at most, as the kernel prints them. */
  readonly capabilities: string;
  readonly exposed?: Partial<Record<Attack, string>>;
}

interface Attacked {
  readonly ended: Ended;
  readonly printed: string;
  readonly place: RunnerUnderTest;
  readonly traits: HostileTraits;
  /** A word in the arguments of processes that must not outlive the script. */
  readonly word: string;
}

interface HostileScript {
  readonly name: string;
  readonly script: (word: string) => string;
  readonly demand?: Partial<Attempt['demand']>;
  readonly check: (attacked: Attacked) => void | Promise<void>;
}

/** Longer than the kubelet takes to measure a disk. */
const TIMEOUT_MS = 240_000;

/** In a new session, whose parent exits. */
const hop = (word: string) => `(setsid sh -c 'while :; do sleep 0.05; done' ${word} </dev/null >/dev/null 2>&1 &)`;

const isGone = async ({ place, word }: Attacked) => assert.equal(await place.runs?.(word), false, 'a process is left');

/** What one script does, and what must come of it, whatever runs it. */
const ATTACKS = [
  {
    name: 'survives its end in other sessions',
    script: (word) =>
      `${hop(word)}; ${hop(word)}; trap '' TERM HUP; nohup sh -c 'sleep 600' ${word} & sleep 0.2; exit 7`,
    async check(attacked) {
      assert.equal(attacked.ended.exitCode, 7);
      await isGone(attacked);
    },
  },
  {
    name: 'writes the marks of its own end',
    script: () => `
      for directory in "$HOME/.." "$TMPDIR/.." /oscar /oscar/marks /oscar/said /run /dev; do
        for file in launch-1 launch.json end.json exit done left end start result termination-log; do
          { echo 'exit 0' >>"$directory/$file"; rm -f "$directory/$file"; } 2>/dev/null
        done
      done
      for descriptor in 3 4 5 6 7; do for process in 1 $PPID; do
        echo 'exit 0' >/proc/$process/fd/$descriptor
      done; done 2>/dev/null
      sleep 0.3; exit 7`,
    check({ ended }) {
      assert.deepEqual([ended.outcome, ended.exitCode], ['failed', 7]);
    },
  },
  {
    name: 'forks without end',
    script: (word) =>
      `i=0; while [ $i -lt ${2 * HOSTILE_LIMITS.processes} ]; do sh -c 'sleep 600; :' ${word} & i=$((i+1)); done; echo all`,
    async check(attacked) {
      assert.equal(attacked.ended.outcome, 'failed');
      assert.doesNotMatch(attacked.printed, /^all$/m);
      await isGone(attacked);
    },
  },
  {
    name: 'fills /dev/shm beyond its memory',
    script: () => 'head -c 200000000 /dev/zero >/dev/shm/x || exit 9; echo filled',
    demand: { memory: 32 * 2 ** 20 },
    check({ ended, printed }) {
      assert.equal(ended.outcome, 'failed');
      assert.doesNotMatch(printed, /filled/);
    },
  },
  {
    name: 'fills the disk with files that it deletes and keeps open',
    script: () => 'exec 8>"$TMP_OUTPUT_DIR/x"; rm "$TMP_OUTPUT_DIR/x"; head -c 200000000 /dev/zero >&8; sleep 600',
    check({ ended }) {
      assert.deepEqual([ended.outcome, ended.reason], ['failed', 'DiskFull']);
    },
  },
  {
    name: 'fills the disk with its output',
    script: () => 'head -c 200000000 /dev/zero >"$TMP_OUTPUT_DIR/x"; sleep 600',
    check({ ended }) {
      assert.deepEqual([ended.outcome, ended.reason], ['failed', 'DiskFull']);
    },
  },
  {
    name: 'wants more privileges and core dumps',
    script: () =>
      `grep -E '^(CapBnd|CapEff|NoNewPrivs):' /proc/self/status; echo "core: $(ulimit -Hc)"; ulimit -c 1 || echo refused`,
    check({ printed, traits }) {
      const fields = new Map(printed.split('\n').map((line) => line.split(/:\s+/) as [string, string]));
      for (const set of ['CapBnd', 'CapEff']) {
        const has = BigInt(`0x${fields.get(set)}`);
        assert.equal(has & ~BigInt(`0x${traits.capabilities}`), 0n, `${set} is ${fields.get(set)}`);
      }
      assert.equal(fields.get('NoNewPrivs'), '1');
      assert.equal(fields.get('core'), '0');
      assert.match(printed, /refused/);
    },
  },
] as const satisfies HostileScript[];

/** The same attacks against every runner. One runner must not hold by the weakness of an attack against another. */
export function describeHostileScripts(name: string, traits: HostileTraits, make: MakeRunner): void {
  const bench = new RunnerBench(traits, make);
  describe(`hostile scripts: ${name}`, { concurrency: traits.atOnce ?? 1, timeout: 600_000 }, () => {
    for (const attack of ATTACKS as readonly HostileScript[]) {
      const reason = traits.exposed?.[attack.name as Attack];
      bench.test(`hostile scripts: one that ${attack.name}`, async (place, t) => {
        if (reason !== undefined) return t.skip(reason);
        const word = `hostile-${randomUUID()}`;
        const demand = { cpu: 100, memory: 256 * 2 ** 20, gpu: 0, ...attack.demand };
        const attempt = bench.attempt(place, attack.script(word), { demand, timeout: TIMEOUT_MS });
        const ended = await run(place.runner, attempt);
        await attack.check({ ended, printed: await log(place.runner, attempt.name), place, traits, word });
      });
    }

    bench.test('hostile scripts: one that looks for the secrets and files of another', async (place) => {
      const secret = randomUUID();
      const victim = bench.attempt(
        place,
        'echo "$SECRET" >"$TMP_OUTPUT_DIR/x"; echo "$SECRET" >/tmp/x; echo begun; sleep 600',
        {
          environment: { SECRET: secret },
        },
      );
      await place.runner.start(victim);
      await untilPrinted(place.runner, victim.name, 'begun');
      const [first, second] = secret.split(/-(.*)/);
      const thief = bench.attempt(
        place,
        `wanted="${first}"-"${second}"
        for file in /proc/[0-9]*/environ /proc/[0-9]*/root/tmp/x /tmp/* /var/tmp/* /dev/shm/*; do grep -l "$wanted" "$file"; done
        for root in "$TMP_OUTPUT_DIR/../.." /oscar /run; do
          find "$root" -xdev -type f -size -64k -exec grep -l "$wanted" {} +
        done
        kill -KILL -1; echo looked`,
      );
      const { outcome } = await run(place.runner, thief);
      assert.ok(outcome === 'failed' || outcome === 'succeeded');
      const found = (await log(place.runner, thief.name))
        .split('\n')
        .filter((line) => line.startsWith('/') && !line.includes(':'));
      // Only its own script has the word.
      assert.deepEqual(
        found.filter((path) => !path.includes('script')),
        [],
      );
      await place.runner.stop(victim.name, 'cancelled');
      assert.equal((await endOf(place.runner, victim.name)).outcome, 'stopped');
    });

    bench.test('hostile scripts: one that leaves files in /tmp, /var/tmp and /dev/shm for the next', async (place) => {
      const mark = `mark-${randomUUID()}`;
      const script = `for d in /tmp /var/tmp /dev/shm; do [ -d $d ] || continue; ls $d/${mark}$d && echo seen; mkdir -p $d/${mark}$d; done 2>/dev/null; echo over`;
      for (let i = 0; i < 2; i++) {
        const attempt = bench.attempt(place, script);
        assert.equal((await run(place.runner, attempt)).outcome, 'succeeded');
        await eventually(async () => assert.match(await log(place.runner, attempt.name), /over/));
        assert.doesNotMatch(await log(place.runner, attempt.name), /seen/);
      }
    });
  });
}
