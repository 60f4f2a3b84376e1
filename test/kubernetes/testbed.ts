import {
  type KubernetesCluster,
  type KubernetesClusterOptions,
  openKubernetesCluster,
} from '../../src/adapters/kubernetes/index.ts';
import { ControlPlane, type ControlPlaneOptions } from './control-plane.ts';
import { MANAGER_NAMESPACE, SERVICE_ACCOUNT } from './manager-rights.ts';

export const SERVICES_NAMESPACE = 'oscar-svc';

/** Short timeouts, so that tests of faults end soon. A real manager uses tens of seconds. */
export const SHORT_TIMEOUTS = { requestMs: 2_000, patienceMs: 8_000, silenceMs: 60_000 };

export interface Testbed {
  readonly plane: ControlPlane;
  /** Opens the stores of a manager with the rights of its service account. */
  open(options?: Partial<KubernetesClusterOptions>): Promise<KubernetesCluster>;
  /** Deletes everything that managers created, except namespaces. */
  wipe(): Promise<void>;
  readonly problems: unknown[];
}

export async function startTestbed(options: ControlPlaneOptions = {}): Promise<Testbed> {
  const plane = await ControlPlane.start(options);
  const kubeconfig = await plane.managerKubeconfig();
  const problems: unknown[] = [];
  return {
    plane,
    problems,
    open: (more = {}) =>
      openKubernetesCluster({
        kubeconfig,
        namespace: MANAGER_NAMESPACE,
        servicesNamespace: SERVICES_NAMESPACE,
        controllerServiceAccount: SERVICE_ACCOUNT,
        settingsName: 'config.yaml',
        objectStore: { endpoint: 'http://minio.minio:9000', verify: true, region: 'us-east-1' },
        rate: { perSecond: 5_000, burst: 5_000 },
        report: (problem) => problems.push(problem),
        times: SHORT_TIMEOUTS,
        ...more,
      }),
    wipe: () => wipe(plane),
  };
}

async function wipe({ admin }: ControlPlane): Promise<void> {
  const { items } = (await admin.do('GET', '/api/v1/namespaces')) as { items: { metadata: { name: string } }[] };
  const names = items.map(({ metadata }) => metadata.name).filter((name) => !name.startsWith('kube-'));
  await Promise.all(
    names.flatMap((namespace) =>
      ['configmaps', 'secrets', 'podtemplates'].map((plural) =>
        admin.do('DELETE', `/api/v1/namespaces/${namespace}/${plural}`),
      ),
    ),
  );
}
