import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { archiveOf, makeImage } from '../../deploy/image/image.ts';
import { tar } from '../../deploy/image/tar.ts';
import { type Operator, operator } from './helm.ts';
import type { Cluster } from './node/cluster.ts';
import { kueueKit } from './programs.ts';

const IMAGE = 'localhost/kueue';
const NAMESPACE = 'kueue-system';

/** Allows for a busy machine. */
const READY = '150s';

/**
 * Installs Kueue with its official chart and default settings. When this resolves, its webhooks answer. `directory` is
 * for files.
 */
export async function installKueue(cluster: Cluster, directory: string): Promise<Operator> {
  const our = await operator(await cluster.plane.adminKubeconfig(), directory);
  const kit = (await kueueKit((line) => process.stderr.write(`${line}\n`))).directory;
  // The image has one static program, under the name that the chart expects.
  const program = { name: 'manager', mode: 0o755, bytes: readFileSync(join(kit, 'bin', 'kueue')) };
  const image = makeImage([tar([{ name: 'tmp/', mode: 0o1777 }, program])], { User: '65532:65532' });
  const archive = join(directory, 'kueue.tar');
  writeFileSync(archive, archiveOf({ [`${IMAGE}:test`]: image }));
  await cluster.import(archive);
  const manager = 'controllerManager.manager';
  const settings = {
    [`${manager}.image.repository`]: IMAGE,
    [`${manager}.image.tag`]: 'test',
    [`${manager}.image.pullPolicy`]: 'Never',
    // The node is small, and Kueue must fit.
    [`${manager}.resources.requests.cpu`]: '50m',
    'controllerManager.readinessProbe.initialDelaySeconds': '1',
  };
  const set = Object.entries(settings).flatMap(([name, value]) => ['--set', `${name}=${value}`]);
  const chart = join(kit, 'objects', 'sigs.k8s.io', 'kueue');
  await our.helm('install', 'kueue', chart, '--namespace', NAMESPACE, '--create-namespace', ...set);
  const kubectl = (...args: string[]) => our.kubectl('', '--namespace', NAMESPACE, ...args);
  try {
    await kubectl('rollout', 'status', 'deployment/kueue-controller-manager', `--timeout=${READY}`);
  } catch (error) {
    const seen = [await kubectl('describe', 'pods'), await kubectl('logs', '-l', 'control-plane=controller-manager')];
    throw new Error(seen.join('\n'), { cause: error });
  }
  return our;
}
