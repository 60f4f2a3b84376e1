import { after, before, describe, type TestContext, test } from 'node:test';
import { BUSYBOX } from '../docker/busybox.ts';
import { bothAt, Minio } from '../minio/minio.ts';
import { IDS } from '../support/cluster-processes.ts';
import { lastingPorts as freePorts } from '../support/lasting-port.ts';
import { runWholeSystemTests, type WholeSystemTests } from '../support/whole-system.ts';
import { MeetingServer } from './meeting-server.ts';
import { GATEWAY } from './node/names.ts';
import { PodManagers } from './pod-managers.ts';
import { wipe } from './wipe.ts';

/** A test file takes one or two minutes. The limit allows for a busy machine. */
const FILE_MS = 900_000;

/** Sixty jobs at once, twenty of them in pods, take two minutes on two cores. */
const POD_PATIENCE_MS = 300_000;

/**
 * Runs the whole-system tests of the embedded cluster with scripts in pods and files in MinIO. Each chain has its own
 * Kubernetes and runs concurrently with the others: pods take long but need little CPU.
 */
export function describeWithPods(chains: Readonly<Record<string, readonly WholeSystemTests[]>>): void {
  describe('with pods', { concurrency: true, timeout: 3_600_000 }, () => {
    for (const [name, parts] of Object.entries(chains)) {
      describe(`the whole-system tests of ${name} pass`, { concurrency: 1 }, () => chain(parts));
    }
  });
}

function chain(parts: readonly WholeSystemTests[]): void {
  let our: PodManagers;
  let meeting: MeetingServer;
  before(async () => {
    our = await PodManagers.start();
    meeting = await MeetingServer.start();
  });
  after(async () => {
    meeting?.stop();
    await our?.stop();
  });

  for (const part of parts) {
    const { file, id } = part;
    test(file, { timeout: FILE_MS }, async (t) => {
      await wipe(our.cluster.admin);
      const settings = await settingsFor(t, our);
      const given =
        id === undefined
          ? { OSCAR_TEST_SETTINGS: JSON.stringify(settings) }
          : { OSCAR_TEST_SETTINGS_OF: JSON.stringify(settingsOfAll(id, settings)) };
      const environment = {
        ...given,
        OSCAR_TEST_IMAGE: BUSYBOX,
        OSCAR_TEST_MEETING: meeting.address,
        OSCAR_TEST_HOST: GATEWAY,
        OSCAR_TEST_PATIENCE: String(POD_PATIENCE_MS),
      };
      await runWholeSystemTests(t, part, environment);
    });
  }
}

/** The settings of the manager on Kubernetes. It listens on a free port to which its MinIO sends events. */
async function settingsFor(t: TestContext, our: PodManagers): Promise<Record<string, string>> {
  const [port = 0] = await freePorts(1);
  const minio = await Minio.start({ host: GATEWAY, hooks: bothAt(`http://${GATEWAY}:${port}/system/events/storage`) });
  t.after(() => minio.stop());
  return { ...our.settings(), ...minio.settings, OSCAR_LISTEN: `${GATEWAY}:${port}` };
}

/** The other managers have their usual settings, but pods must reach their stores. */
function settingsOfAll(id: string, settings: Record<string, string>): Record<string, Record<string, string>> {
  const all = { OSCAR_PEER_NETWORKS: `127.0.0.0/8,${GATEWAY}/32` };
  const others = { ...all, OSCAR_LISTEN: `${GATEWAY}:0`, OSCAR_LOCAL_ALLOW_REMOTE: 'true' };
  return Object.fromEntries(IDS.map((each) => [each, each === id ? { ...settings, ...all } : others]));
}
