import { eventually } from '../../src/ports/conformance/eventually.ts';
import type { Admin } from './admin.ts';

interface Item {
  readonly metadata: { readonly name: string; readonly namespace: string; readonly finalizers?: readonly string[] };
}

const OF_MANAGERS = [
  '/apis/batch/v1/*/jobs',
  '/api/v1/*/pods',
  '/api/v1/*/configmaps',
  '/api/v1/*/secrets',
  '/api/v1/*/podtemplates',
  '/apis/coordination.k8s.io/v1/*/leases',
];

/** Deletes everything that managers created, except namespaces. Call it when no manager runs. */
export const wipe = (admin: Admin): Promise<void> => eventually(() => wipeOnce(admin), 120_000, 500);

async function wipeOnce(admin: Admin): Promise<void> {
  const { items } = (await admin.do('GET', '/api/v1/namespaces')) as unknown as { items: Item[] };
  const namespaces = items.map(({ metadata }) => metadata.name).filter((name) => !name.startsWith('kube-'));
  for (const namespace of namespaces) {
    const lists = OF_MANAGERS.map((path) => path.replace('*', `namespaces/${namespace}`));
    for (const path of lists) await admin.do('DELETE', `${path}?propagationPolicy=Background&gracePeriodSeconds=0`);
  }
  const { items: pods } = (await admin.do('GET', '/api/v1/pods')) as unknown as { items: Item[] };
  for (const pod of pods) {
    const { metadata } = pod;
    const path = `/api/v1/namespaces/${metadata.namespace}/pods/${metadata.name}`;
    // No manager runs that would remove the finalizer.
    if (metadata.finalizers) await admin.ask('PUT', path, { ...pod, metadata: { ...metadata, finalizers: [] } });
  }
  if (pods.length > 0) throw new Error(`${pods.length} pods still exist`);
}
