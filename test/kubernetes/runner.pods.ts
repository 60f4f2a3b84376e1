import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { after } from 'node:test';
import { describeRunner } from '../../src/cluster/runner.conformance.ts';
import type { RunnerUnderTest } from '../../src/cluster/runner-under-test.ts';
import { BUSYBOX } from '../docker/busybox.ts';
import { startPodBench } from './pod-bench.ts';

/** Scripts in real pods, started with no more rights than a manager has. */
const bench = await startPodBench();
after(() => bench.stop());

const OF_KUBERNETES = ['SERVICE_HOST', 'SERVICE_PORT', 'SERVICE_PORT_HTTPS', 'PORT'].map(
  (name) => `KUBERNETES_${name}`,
);
const OF_ITS_PORT = ['', '_ADDR', '_PORT', '_PROTO'].map((name) => `KUBERNETES_PORT_443_TCP${name}`);

const ONE_PROCESS =
  'control groups v1 end one process of a script, which then hangs until its time is over: see attempts.pods.ts';

describeRunner(
  'Kubernetes',
  {
    image: BUSYBOX,
    basics: ['PATH', 'HOME', 'HOSTNAME', ...OF_KUBERNETES, ...OF_ITS_PORT],
    cannot: {
      'found ended': 'a pod delivers by itself: nothing is left to be delivered by the next manager',
      ...(existsSync('/sys/fs/cgroup/cgroup.controllers') ? {} : { memory: ONE_PROCESS }),
      'carriage returns': 'containerd drops them before the end of a line',
      'kept files': 'what is kept of an attempt are objects of the cluster, not files',
    },
  },
  make,
);

async function make(): Promise<RunnerUnderTest> {
  await bench.stores.empty();
  const first = await bench.open();
  let current = first;
  return {
    runner: first,
    stores: bench.stores,
    async reopen() {
      current = await bench.open();
      return current;
    },
    runs: async (word) => runs(word),
    async close() {
      await Promise.all(
        (await current.list()).map(async (name) => {
          await current.stop(name, 'cancelled');
          await current.forget(name);
        }),
      );
      await current.close();
    },
  };
}

/** Processes in containers are processes of this machine. */
function runs(word: string): boolean {
  return readdirSync('/proc').some((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'latin1').split('\0').includes(word);
    } catch {
      return false;
    }
  });
}
