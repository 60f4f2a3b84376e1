import { setTimeout as pause } from 'node:timers/promises';
import { eventually } from '../../src/cluster/eventually.ts';
import type { Admin } from './admin.ts';

const GROUP = 'serving.knative.dev';

interface Standing {
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly uid: string;
    readonly generation: number;
  };
  readonly spec: { readonly template: { readonly metadata: Words; readonly spec: PodSpec } };
}

interface Words {
  readonly labels?: Readonly<Record<string, string>>;
}

interface PodSpec {
  readonly containers: readonly {
    readonly name: string;
    readonly ports?: readonly { readonly containerPort: number }[];
  }[];
  readonly [more: string]: unknown;
}

/** Makes the cluster know what a Knative Service is: any that has a name. */
export async function installKnative(admin: Admin): Promise<void> {
  await admin.do('POST', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', {
    metadata: { name: `services.${GROUP}` },
    spec: {
      group: GROUP,
      scope: 'Namespaced',
      names: { kind: 'Service', plural: 'services', singular: 'service', shortNames: ['ksvc'] },
      versions: [
        {
          name: 'v1',
          served: true,
          storage: true,
          subresources: { status: {} },
          schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
        },
      ],
    },
  });
  await eventually(() => admin.do('GET', `/apis/${GROUP}/v1/services`), 30_000, 50);
}

/**
 * Stands in for Knative Serving: each Knative Service is a Deployment of one pod and a port of the node. What Knative does
 * beyond that (it scales, it queues, it rolls out) it does not.
 */
export class KnativeStandIn {
  readonly #admin: Admin;
  readonly #nodeAddress: string;
  readonly #stop = new AbortController();
  #running: Promise<void> | undefined;

  constructor(admin: Admin, nodeAddress: string) {
    this.#admin = admin;
    this.#nodeAddress = nodeAddress;
  }

  start(): void {
    this.#running ??= this.#follow();
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #follow(): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      const { items } = (await this.#admin.do('GET', `/apis/${GROUP}/v1/services`)) as unknown as { items: Standing[] };
      // One that goes in between is seen to be gone the next time.
      for (const standing of items) await this.#keep(standing).catch(() => undefined);
      await pause(100, undefined, { signal }).catch(() => undefined);
    }
  }

  async #keep(standing: Standing): Promise<void> {
    const { name, namespace, generation } = standing.metadata;
    const deployments = `/apis/apps/v1/namespaces/${namespace}/deployments`;
    const services = `/api/v1/namespaces/${namespace}/services`;
    const wanted = deploymentOf(standing);
    const { status, body } = await this.#admin.ask('GET', `${deployments}/${name}-knative`);
    const seen = body as unknown as { metadata: { annotations?: Record<string, string> }; status?: Available };
    if (status === 404) {
      await this.#admin.do('POST', deployments, wanted);
      await this.#admin.ask('POST', services, portOf(standing));
    } else if (seen.metadata.annotations?.['generation'] !== String(generation)) {
      await this.#admin.do('PUT', `${deployments}/${name}-knative`, wanted);
    }
    const port = (await this.#admin.do('GET', `${services}/${name}-knative`)) as unknown as { spec: Ports };
    const available = seen.status?.availableReplicas ?? 0;
    await this.#admin.do(
      'PATCH',
      `/apis/${GROUP}/v1/namespaces/${namespace}/services/${name}/status`,
      {
        status: {
          address: { url: `http://${this.#nodeAddress}:${port.spec.ports[0]?.nodePort}` },
          conditions: [
            { type: 'Ready', status: available > 0 ? 'True' : 'Unknown', reason: available > 0 ? '' : 'Deploying' },
          ],
        },
      },
      'application/merge-patch+json',
    );
  }
}

interface Available {
  readonly availableReplicas?: number;
}

interface Ports {
  readonly ports: readonly { readonly nodePort: number }[];
}

const ownersOf = ({ metadata: { name, uid } }: Standing) => [
  { apiVersion: `${GROUP}/v1`, kind: 'Service', name, uid, controller: true },
];

function deploymentOf(standing: Standing) {
  const { name, namespace, generation } = standing.metadata;
  const { template } = standing.spec;
  const { containerConcurrency: _, timeoutSeconds: __, ...spec } = template.spec;
  const labels = { ...template.metadata.labels, 'serving.knative.dev/service': name };
  // As Knative asks each pod before it sends anything there.
  const containers = spec.containers.map((container) =>
    container.ports ? { ...container, readinessProbe: { tcpSocket: { port: 8080 }, periodSeconds: 1 } } : container,
  );
  return {
    metadata: {
      name: `${name}-knative`,
      namespace,
      annotations: { generation: String(generation) },
      ownerReferences: ownersOf(standing),
    },
    spec: {
      replicas: 1,
      strategy: { type: 'Recreate' },
      selector: { matchLabels: { 'serving.knative.dev/service': name } },
      template: { metadata: { labels }, spec: { ...spec, containers, terminationGracePeriodSeconds: 5 } },
    },
  };
}

function portOf(standing: Standing) {
  const { name, namespace } = standing.metadata;
  return {
    metadata: { name: `${name}-knative`, namespace, ownerReferences: ownersOf(standing) },
    spec: {
      type: 'NodePort',
      selector: { 'serving.knative.dev/service': name },
      ports: [{ port: 80, targetPort: 8080 }],
    },
  };
}
