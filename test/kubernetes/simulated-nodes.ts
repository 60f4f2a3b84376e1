import type { Admin } from './admin.ts';

const MERGE = 'application/merge-patch+json';

export interface SimulatedNode {
  readonly cpu?: string;
  readonly memory?: string;
  readonly gpu?: string;
  readonly labels?: Readonly<Record<string, string>>;
}

/** Nodes and pods that exist only as objects of the API, without a kubelet or scheduler. */
export class SimulatedNodes {
  readonly #admin: Admin;
  readonly #namespace: string;

  private constructor(admin: Admin, namespace: string) {
    this.#admin = admin;
    this.#namespace = namespace;
  }

  static async in(admin: Admin, namespace: string): Promise<SimulatedNodes> {
    await admin.do('POST', '/api/v1/namespaces', { metadata: { name: namespace } });
    // Without controllers the default service account is not created, and without it pods are rejected.
    await admin.do('POST', `/api/v1/namespaces/${namespace}/serviceaccounts`, { metadata: { name: 'default' } });
    return new SimulatedNodes(admin, namespace);
  }

  /** Creates a node that is ready and has no pods. */
  async node(name: string, { cpu = '4', memory = '8Gi', gpu, labels = {} }: SimulatedNode = {}): Promise<void> {
    const allocatable = { cpu, memory, pods: '110', ...(gpu !== undefined && { 'nvidia.com/gpu': gpu }) };
    const status = { allocatable, capacity: allocatable, conditions: [{ type: 'Ready', status: 'True' }] };
    await this.#admin.do('POST', '/api/v1/nodes', { metadata: { name, labels }, status });
    // The API server taints every new node as not ready.
    await this.patchNode(name, { spec: { taints: null } });
  }

  async patchNode(name: string, patch: unknown): Promise<void> {
    await this.#admin.do('PATCH', `/api/v1/nodes/${name}`, patch, MERGE);
  }

  async setReady(name: string, status: 'True' | 'False' | 'Unknown'): Promise<void> {
    const patch = { status: { conditions: [{ type: 'Ready', status }] } };
    await this.#admin.do('PATCH', `/api/v1/nodes/${name}/status`, patch, MERGE);
  }

  async removeNode(name: string): Promise<void> {
    await this.#admin.do('DELETE', `/api/v1/nodes/${name}`);
  }

  /** Creates a pod that is not scheduled. */
  async pod(name: string, cpu: string, annotations: Readonly<Record<string, string>> = {}): Promise<void> {
    await this.#admin.do('POST', this.#pods(), { metadata: { name, annotations }, spec: specOf(cpu) });
  }

  /** Creates a pod that is bound from the start. */
  async podOn(node: string, name: string, cpu: string): Promise<void> {
    await this.#admin.do('POST', this.#pods(), { metadata: { name }, spec: { ...specOf(cpu), nodeName: node } });
  }

  /** Binds a pod as the scheduler does. */
  async bind(pod: string, node: string): Promise<void> {
    const target = { apiVersion: 'v1', kind: 'Node', name: node };
    await this.#admin.do('POST', this.#pods(pod, 'binding'), { metadata: { name: pod }, target });
  }

  async setPhase(pod: string, phase: string): Promise<void> {
    await this.#admin.do('PATCH', this.#pods(pod, 'status'), { status: { phase } }, MERGE);
  }

  async removePod(name: string): Promise<void> {
    await this.#admin.do('DELETE', `${this.#pods(name)}?gracePeriodSeconds=0`);
  }

  async wipe(): Promise<void> {
    await this.#admin.do('DELETE', `${this.#pods()}?gracePeriodSeconds=0`);
    await this.#admin.do('DELETE', '/api/v1/nodes');
  }

  #pods(...parts: string[]): string {
    return ['/api/v1/namespaces', this.#namespace, 'pods', ...parts].join('/');
  }
}

const specOf = (cpu: string) => ({
  automountServiceAccountToken: false,
  containers: [{ name: 'main', image: 'none', resources: { requests: { cpu } } }],
});
