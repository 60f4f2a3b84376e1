import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { lastingPorts as freePorts } from '../support/lasting-port.ts';
import type { Subject } from './certificates.ts';
import type { Flags } from './flags.ts';

/** The same everywhere: no two clusters share a network in which they would meet. */
export const SERVICE_RANGE = '10.96.0.0/16';

/** Where a control plane is, and what it is told because it is there. */
export interface Site {
  /** Its own, and empty. */
  readonly directory: string;
  /** Of the API server. Everything else stays on loopback. */
  readonly address: string;
  readonly ports: { readonly api: number; readonly etcd: number; readonly peers: number; readonly controllers: number };
  /** A command that becomes the one after it, in that place. */
  readonly enter: readonly string[];
  /** Client certificates that others need, by file. */
  readonly clients: Readonly<Record<string, Subject>>;
  readonly flags: { readonly apiServer: Flags; readonly controllers: Flags };
}

/** On this machine for nobody but its own processes. */
export async function loopback(): Promise<Site> {
  const [api = 0, etcd = 0, peers = 0, controllers = 0] = await freePorts(4);
  return {
    directory: await mkdtemp(join(tmpdir(), 'oscar-kubernetes-')),
    address: '127.0.0.1',
    ports: { api, etcd, peers, controllers },
    enter: [],
    clients: {},
    // A loopback address cannot be an endpoint.
    flags: { apiServer: { 'endpoint-reconciler-type': 'none' }, controllers: {} },
  };
}
