import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** This machine, as pods see it. What they are to reach must listen here. */
export const GATEWAY = '10.200.0.1';

/** The bridge on which all clusters meet. It leads nowhere else. */
export const BRIDGE = 'oscar-kube';

export const POD_RANGE = '10.244.0.0/24';
export const DNS_ADDRESS = '10.96.0.10';

/** How a keeper ends whose number somebody else has. */
export const LOCK_HELD_EXIT_CODE = 75;

/** How everything on this machine is called that belongs to one cluster: what an earlier run left is found by it. */
export interface ClusterNames {
  readonly id: number;
  /** Of the network namespace, the link to the bridge, the cgroup and the directory. */
  readonly name: string;
  readonly directory: string;
  readonly address: string;
  readonly node: string;
}

export function clusterNames(id: number): ClusterNames {
  if (!Number.isInteger(id) || id < 1 || id > 200) throw new Error(`a cluster's number is from 1 to 200, not ${id}`);
  const name = `${BRIDGE}-${id}`;
  return { id, name, directory: join(tmpdir(), name), address: `10.200.0.${10 + id}`, node: `node-${id}` };
}
