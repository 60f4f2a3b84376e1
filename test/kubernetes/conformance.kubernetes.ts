import { after } from 'node:test';
import { describeJournal } from '../../src/ports/conformance/journal.conformance.ts';
import { describeSecretStore } from '../../src/ports/conformance/secret-store.conformance.ts';
import { describeServiceStore } from '../../src/ports/conformance/service-store.conformance.ts';
import { describeSettingsStore } from '../../src/ports/conformance/settings-store.conformance.ts';
import { startTestbed } from './testbed.ts';

/** Runs the conformance suites of the stores on a real API server, with only the rights of a manager. */
const testbed = await startTestbed();
after(() => testbed.plane.stop());
await testbed.plane.admin.do('POST', '/api/v1/namespaces', { metadata: { name: 'ns' } });

async function opened() {
  await testbed.wipe();
  let now = Date.now();
  const cluster = await testbed.open({ now: () => now });
  const advance = (milliseconds: number) => {
    now += milliseconds;
  };
  return { cluster, advance, close: () => cluster.close() };
}

describeServiceStore('Kubernetes', async () => {
  const { cluster, ...rest } = await opened();
  return { store: cluster.services, ...rest };
});

describeSecretStore('Kubernetes', async () => {
  const { cluster, close } = await opened();
  return { store: cluster.secrets, close };
});

describeJournal('Kubernetes', async () => {
  const { cluster, close } = await opened();
  return { journal: cluster.journal, close };
});

describeSettingsStore('Kubernetes', async () => {
  const { cluster, close } = await opened();
  return { store: cluster.settings, close };
});
