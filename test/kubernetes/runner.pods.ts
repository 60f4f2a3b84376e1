import { existsSync } from 'node:fs';
import { after } from 'node:test';
import type { KubernetesRunnerOptions } from '../../src/adapters/kubernetes/runner/index.ts';
import { describeHostileScripts, HOSTILE_LIMITS } from '../../src/ports/conformance/hostile-scripts.conformance.ts';
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

const traits = {
  image: BUSYBOX,
  basics: ['PATH', 'HOME', 'HOSTNAME', ...OF_KUBERNETES, ...OF_ITS_PORT],
  atOnce: AT_ONCE,
  cannot: {
    'found ended': 'a pod delivers by itself: nothing is left to be delivered by the next manager',
    ...(existsSync('/sys/fs/cgroup/cgroup.controllers') ? {} : { memory: ONE_PROCESS }),
    'carriage returns': 'containerd drops them before the end of a line',
    'kept files': 'what is kept of an attempt are objects of the cluster, not files',
  },
};
describeRunner('Kubernetes', traits, () => make());

describeHostileScripts(
  'Kubernetes',
  {
    ...traits,
    // CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID.
    capabilities: 'fb',
    exposed: {
      'forks without end': 'Kubernetes limits the processes of a pod only by podPidsLimit of the kubelet',
      'fills the disk with files that it deletes and keeps open':
        'the kubelet counts the files of a directory, unless the file system has quotas',
    },
  },
  () => make({ diskBytes: HOSTILE_LIMITS.disk }),
);

async function make(options: Partial<KubernetesRunnerOptions> = {}): Promise<RunnerUnderTest> {
  const place = await testbed.place();
  const first = await place.open(options);
  let current = first;
  return {
    runner: first,
    stores: place.stores,
    async reopen() {
      current = await place.open(options);
      return current;
    },
    runs: async (word) => runsAnywhere(word),
    close: () => place.close(current),
  };
}
