import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../../../ports/conformance/eventually.ts';
import { SECRET, type SecretObject } from '../client/kinds.ts';
import { toAttemptSecret } from './attempt-secret.ts';
import { writeOrdersSecret } from './claim.ts';
import { FakeApi } from './fake-api.fixture.ts';
import { NO_KEYS } from './keys.ts';
import { endNote, withAnnotations } from './notes.ts';
import { OrphanedPods } from './orphaned-pods.ts';
import { HOLD, POD, type Pod } from './pod.ts';
import type { PodCache } from './pod-cache.ts';
import { podWith, ATTEMPT as SAMPLE, SETTINGS, terminated, WAITED } from './pods.fixture.ts';

const HABITS = { networks: [], port: 1 };

/** An attempt in a warm pod whose outcome is recorded. Its manager died before it cleaned up. */
async function left(server: FakeApi) {
  const { api } = server;
  const end = { phase: 'ended', outcome: 'succeeded', reason: 'Completed', message: 'well', finishedAt: 1 } as const;
  const record: SecretObject = withAnnotations(
    toAttemptSecret(SAMPLE, { namespace: 'ns' }, NO_KEYS, HABITS, 'cows-warm-1'),
    endNote(end),
  );
  const secret = await api.post(SECRET, 'ns', record);
  const labels = { 'oscar.grycap/attempt': SAMPLE.name };
  const metadata = { name: 'cows-warm-1', ...WAITED, labels, finalizers: [HOLD] };
  const pod = await api.post<Pod>(POD, 'ns', podWith({ script: terminated(0) }, { phase: 'Succeeded' }, metadata));
  await writeOrdersSecret(pod, SAMPLE, NO_KEYS, { api, stagingOptions: HABITS, settings: SETTINGS });
  return { secret, pod };
}

test('orphaned pods: after a manager died while cleaning up a call, its orders and the finalizer of its pod are removed', async () => {
  const server = new FakeApi();
  const { secret, pod } = await left(server);
  const podCache = { pods: new Map([[SAMPLE.name, pod]]), secrets: new Map([[SAMPLE.name, secret]]) };
  const problems: unknown[] = [];
  const report = (problem: unknown) => void problems.push(problem);
  const deps = { api: server.api, podCache: podCache as unknown as PodCache, report };
  const orphans = new OrphanedPods(deps, () => false, new AbortController().signal, 0);
  orphans.check(SAMPLE.name);
  await eventually(() => {
    assert.deepEqual(
      server.all('secrets').map(({ metadata }) => metadata.name),
      [SAMPLE.name],
    );
    assert.deepEqual(
      server.all('pods').map(({ metadata }) => (metadata as Pod['metadata']).finalizers),
      [[]],
    );
  });
  assert.deepEqual(problems, []);
});
