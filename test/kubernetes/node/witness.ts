import { setTimeout as pause } from 'node:timers/promises';
import type { Admin } from '../admin.ts';

const HEARTBEAT_MS = 2_000;

/**
 * A healthy node that exists only in the API and accepts no pods. If all nodes of a cluster are lost, Kubernetes
 * assumes a fault of its own and evicts no pods; with this node, one healthy node remains.
 */
export class Witness {
  readonly #admin: Admin;
  readonly #ended = new AbortController();
  readonly #lease = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases';
  readonly #nodes = '/api/v1/nodes';
  #heartbeats: Promise<void> | undefined;

  constructor(admin: Admin) {
    this.#admin = admin;
  }

  async start(): Promise<void> {
    const taints = [{ key: 'oscar.test/witness', effect: 'NoSchedule' }];
    const metadata = { name: 'witness' };
    await this.#admin.do('POST', this.#nodes, { metadata, spec: { unschedulable: true, taints } });
    const conditions = [{ type: 'Ready', status: 'True', reason: 'KubeletReady', lastHeartbeatTime: new Date() }];
    const type = 'application/merge-patch+json';
    await this.#admin.do('PATCH', `${this.#nodes}/witness/status`, { status: { conditions } }, type);
    await this.#admin.do('POST', this.#lease, { metadata, spec: this.#spec() });
    this.#heartbeats = this.#sendHeartbeats();
  }

  async stop(): Promise<void> {
    if (!this.#heartbeats) return;
    this.#ended.abort();
    await this.#heartbeats;
    await this.#admin.do('DELETE', `${this.#nodes}/witness`);
    // The Lease has no owner reference, so it is not garbage-collected with the node.
    await this.#admin.do('DELETE', `${this.#lease}/witness`);
  }

  async #sendHeartbeats(): Promise<void> {
    const { signal } = this.#ended;
    while (!signal.aborted) {
      await pause(HEARTBEAT_MS, undefined, { signal, ref: false }).catch(() => {});
      // A test may have stopped the API server: ignore the error and retry at the next heartbeat.
      await this.#admin
        .do('PATCH', `${this.#lease}/witness`, { spec: this.#spec() }, 'application/merge-patch+json')
        .catch(() => {});
    }
  }

  #spec(): Record<string, unknown> {
    return {
      holderIdentity: 'witness',
      leaseDurationSeconds: 8,
      renewTime: `${new Date().toISOString().slice(0, -1)}000Z`,
    };
  }
}
