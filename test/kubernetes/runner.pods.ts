import { existsSync } from 'node:fs';
import { after } from 'node:test';
import { describeRunner } from '../../src/ports/conformance/runner.conformance.ts';
import type { RunnerUnderTest } from '../../src/ports/conformance/runner-under-test.ts';
import { BUSYBOX } from '../docker/busybox.ts';
import { runsAnywhere } from '../support/machine-processes.ts';
import { startPodTestbed } from './pod-testbed.ts';

/** Runs scripts in real pods, with only the rights of a manager. */
const testbed = await startPodTestbed();
after(() => testbed.stop());

const OF_KUBERNETES = ['SERVICE_HOST', 'SERVICE_PORT', 'SERVICE_PORT_HTTPS', 'PORT'].map(
  (name) => `KUBERNETES_${name}`,
);
const OF_ITS_PORT = ['', '_ADDR', '_PORT', '_PROTO'].map((name) => `KUBERNETES_PORT_443_TCP${name}`);

const ONE_PROCESS =
  'control groups v1 end one process of a script, which then hangs until its time is over: see attempts.pods.ts';

/** Groups that run at the same time, of five. Pods take seconds, but little CPU. */
const AT_ONCE = 3;

describeRunner(
  'Kubernetes',
  {
    image: BUSYBOX,
    basics: ['PATH', 'HOME', 'HOSTNAME', ...OF_KUBERNETES, ...OF_ITS_PORT],
    atOnce: AT_ONCE,
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
  const place = await testbed.place();
  const first = await place.open();
  let current = first;
  return {
    runner: first,
    stores: place.stores,
    async reopen() {
      current = await place.open();
      return current;
    },
    runs: async (word) => runsAnywhere(word),
    close: () => place.close(current),
  };
}
