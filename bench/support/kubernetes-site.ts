import assert from 'node:assert/strict';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { ControlPlane } from '../../test/kubernetes/control-plane.ts';
import { MANAGER_NAMESPACE } from '../../test/kubernetes/manager-rights.ts';
import { managerSettings } from '../../test/kubernetes/manager-settings.ts';
import { SimulatedNodes } from '../../test/kubernetes/simulated-nodes.ts';
import { bothAt, Minio } from '../../test/minio/minio.ts';
import { Outside } from '../../test/support/jobs.ts';
import { type ApiAccess, accessOf } from './api-connection.ts';
import { freePort, type ManagerProcess, startManagerProcess } from './manager-process.ts';
import type { BenchUser } from './user.ts';

/** A real API server, a real MinIO that sends its events, and a manager of both. Unless told otherwise no job can start. */
export interface KubernetesSite extends AsyncDisposable {
  readonly plane: ControlPlane;
  readonly minio: Minio;
  readonly manager: ManagerProcess;
  /** What users have of the manager. */
  readonly outside: Outside;
  /** To the API, as the manager has it. */
  readonly access: ApiAccess;
}

const CPU = '4';

/** A manager that is the only one leads at once. */
const LEADS_WITHIN_MS = 30_000;

/** Of its administrator. */
export const PASSWORD = 'of nobody here';

/** What there is before the manager is started. */
export type Furnish = (parts: { readonly plane: ControlPlane; readonly minio: Minio }) => Promise<void>;

/** Its only node is full. */
const oneFullNode: Furnish = async ({ plane }) => {
  const nodes = await SimulatedNodes.in(plane.admin, 'taken');
  await nodes.node('full', { cpu: CPU });
  await nodes.podOn('full', 'all-of-it', CPU);
};

export async function startKubernetesSite(user: BenchUser, furnish: Furnish = oneFullNode): Promise<KubernetesSite> {
  await using opened = new AsyncDisposableStack();
  const plane = opened.adopt(await ControlPlane.start(), (it) => it.stop());
  const port = await freePort();
  const hooks = bothAt(`http://127.0.0.1:${port}/system/events/storage`);
  const minio = opened.adopt(await Minio.start({ hooks }), (it) => it.stop());
  await furnish({ plane, minio });
  const kubeconfig = await plane.managerKubeconfig();
  const settings = {
    ...managerSettings(kubeconfig),
    ...user.settings,
    ...minio.settings,
    OSCAR_EXTERNAL_STORE: 'minio',
    OSCAR_STAGING_IMAGE: 'no-pod-gets-that-far',
    OSCAR_PASSWORD: PASSWORD,
    OSCAR_LISTEN: `127.0.0.1:${port}`,
  };
  const manager = opened.use(await startManagerProcess({ settings, port }));
  await leads(plane);
  const closing = opened.move();
  return {
    plane,
    minio,
    manager,
    outside: new Outside(manager.url),
    access: accessOf(kubeconfig),
    [Symbol.asyncDispose]: () => closing.disposeAsync(),
  };
}

async function leads({ admin }: ControlPlane): Promise<void> {
  const path = `/apis/coordination.k8s.io/v1/namespaces/${MANAGER_NAMESPACE}/leases/oscar-manager`;
  await eventually(async () => assert.equal((await admin.ask('GET', path)).status, 200), LEADS_WITHIN_MS, 100);
}
