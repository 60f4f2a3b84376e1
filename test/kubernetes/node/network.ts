import { execFile } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { promisify } from 'node:util';
import { environment } from '../processes.ts';
import { SERVICE_RANGE } from '../site.ts';
import { BRIDGE, type ClusterNames, GATEWAY } from './names.ts';

/** Another test that stops the last cluster may remove the bridge while we attach to it. */
const TRIES = 5;

/** Not `ip netns exec`, which mounts another /sys that has no cgroups. */
export const inNetwork = ({ name }: ClusterNames): string[] => ['nsenter', `--net=${networkNamespacePath(name)}`];

/**
 * Creates a network namespace, so that all clusters can use the same pod and service addresses. It has no default
 * route: it reaches this machine and other clusters, and nothing outside.
 */
export async function createNetwork(names: ClusterNames): Promise<void> {
  const { name, address, id } = names;
  await ip(`netns add ${name}`);
  for (let attempt = 1; ; attempt += 1) {
    try {
      await createBridge();
      // The hardware address is always the same: otherwise neighbours would use the cached one of an earlier run for
      // some seconds.
      const hardware = `02:00:0a:c8:00:${(10 + id).toString(16).padStart(2, '0')}`;
      await ip(`link add ${name} type veth peer name eth0 address ${hardware} netns ${name}`);
      await ip(`link set ${name} master ${BRIDGE} up`);
      break;
    } catch (error) {
      if (attempt === TRIES) throw error;
      await ip(`link del ${name}`).catch(() => {});
    }
  }
  await ip(`-n ${name} addr add ${address}/24 dev eth0`);
  await ip(`-n ${name} link set lo up`);
  await ip(`-n ${name} link set eth0 up`);
  // Without a route the kernel rejects packets to services before kube-proxy's rules apply. The route itself is never
  // used.
  await ip(`-n ${name} route add ${SERVICE_RANGE} via ${GATEWAY}`);
  const [enter = '', ...rest] = inNetwork(names);
  const settings =
    'echo 1 > /proc/sys/net/ipv4/ip_forward; cd /proc/sys/net/bridge && echo 1 > bridge-nf-call-iptables';
  await promisify(execFile)(enter, [...rest, 'sh', '-c', `(${settings}) 2>&1 || true`]);
}

export async function removeNetwork({ name }: ClusterNames): Promise<void> {
  if (existsSync(networkNamespacePath(name))) await ip(`netns del ${name}`);
  if (existsSync(`/sys/class/net/${name}`)) await ip(`link del ${name}`).catch(() => {});
  const ports = `/sys/class/net/${BRIDGE}/brif`;
  if (existsSync(ports) && readdirSync(ports).length === 0) await ip(`link del ${BRIDGE}`).catch(() => {});
}

export function networkNamespacePath(name: string): string {
  return `/run/netns/${name}`;
}

async function createBridge(): Promise<void> {
  if (existsSync(`/sys/class/net/${BRIDGE}`)) return;
  // Another process may create the same bridge at the same time.
  await ip(`link add ${BRIDGE} type bridge`).catch(() => {});
  await ip(`addr replace ${GATEWAY}/24 dev ${BRIDGE}`);
  await ip(`link set ${BRIDGE} up`);
}

async function ip(words: string): Promise<void> {
  await promisify(execFile)('ip', words.split(' '), { env: environment() });
}
