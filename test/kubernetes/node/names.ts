import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** The address of this machine as seen from pods. Servers that pods must reach listen on it. */
export const GATEWAY = '10.200.0.1';

/** The bridge that connects all clusters. It has no route to other networks. */
export const BRIDGE = 'oscar-kube';

export const POD_RANGE = '10.244.0.0/24';
export const DNS_ADDRESS = '10.96.0.10';

/** The exit code of the lock process if another process holds the number. */
export const LOCK_HELD_EXIT_CODE = 75;

/**
 * The names of everything on this machine that belongs to one cluster. A later run finds the remains of an earlier one
 * by these names.
 */
export interface ClusterNames {
  readonly id: number;
  /** The name of the network namespace, the link to the bridge, the cgroup and the directory. */
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
