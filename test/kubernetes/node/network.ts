import { execFile } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { promisify } from 'node:util';
import { environment } from '../processes.ts';
import { SERVICE_RANGE } from '../site.ts';
import { BRIDGE, type ClusterNames, GATEWAY } from './names.ts';

/** Somebody's last cluster may take the bridge away while ours is being tied to it. */
const TRIES = 5;

/** Not `ip netns exec`: that one mounts another /sys, in which there are no cgroups. */
export const inNetwork = ({ name }: ClusterNames): string[] => ['nsenter', `--net=${networkNamespacePath(name)}`];

/**
 * A network of its own, in which all clusters can have the same addresses for pods and services. There is no default
 * route: this machine and the other clusters can be reached, and nothing outside.
 */
export async function createNetwork(names: ClusterNames): Promise<void> {
  const { name, address, id } = names;
  await ip(`netns add ${name}`);
  for (let attempt = 1; ; attempt += 1) {
    try {
      await createBridge();
      // Always the same hardware address: neighbours would use the one of an earlier run for some seconds.
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
  // Without any route they would be refused before kube-proxy's rules see them. This one is never taken.
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
  // Who makes it at the same time makes the same.
  await ip(`link add ${BRIDGE} type bridge`).catch(() => {});
  await ip(`addr replace ${GATEWAY}/24 dev ${BRIDGE}`);
  await ip(`link set ${BRIDGE} up`);
}

async function ip(words: string): Promise<void> {
  await promisify(execFile)('ip', words.split(' '), { env: environment() });
}
