import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { lastingPorts as freePorts } from '../support/lasting-port.ts';
import type { Subject } from './certificates.ts';
import type { Flags } from './flags.ts';

/** The same range in all clusters, because each has its own network. */
export const SERVICE_RANGE = '10.96.0.0/16';

/** Where a control plane runs, and the settings that depend on it. */
export interface Site {
  /** An empty directory for this control plane alone. */
  readonly directory: string;
  /** The address of the API server. All other parts listen on loopback. */
  readonly address: string;
  readonly ports: { readonly api: number; readonly etcd: number; readonly peers: number; readonly controllers: number };
  /** The prefix of commands that are to run at this site. */
  readonly enter: readonly string[];
  /** Client certificates of other components, by file name. */
  readonly clients: Readonly<Record<string, Subject>>;
  readonly flags: { readonly apiServer: Flags; readonly controllers: Flags };
}

/** A site on loopback, reachable only from this machine. */
export async function loopback(): Promise<Site> {
  const [api = 0, etcd = 0, peers = 0, controllers = 0] = await freePorts(4);
  return {
    directory: await mkdtemp(join(tmpdir(), 'oscar-kubernetes-')),
    address: '127.0.0.1',
    ports: { api, etcd, peers, controllers },
    enter: [],
    clients: {},
    // Kubernetes rejects loopback addresses as endpoints.
    flags: { apiServer: { 'endpoint-reconciler-type': 'none' }, controllers: {} },
  };
}
