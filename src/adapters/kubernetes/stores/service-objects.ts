import type { Service } from '../../../model/service/index.ts';
import type { Api } from '../client/api.ts';
import { JOB, type KubeObject, POD_TEMPLATE, type Stored } from '../client/kinds.ts';
import { createObject, removeObject } from '../client/writes.ts';
import { SERVICE, SERVICE_UID_ANNOTATION } from '../objects/labels.ts';
import { toPodTemplate } from '../objects/pod-template.ts';
import { RECORD } from './job-object.ts';

/**
 * Creates the PodTemplate by which a Go manager knows that the service exists (docs/go-manager.md#kubernetes-objects).
 */
export async function createMarker(service: Service, definition: Stored<KubeObject>, api: Api): Promise<void> {
  const marker = toPodTemplate(service, definition);
  if ((await createObject(api, POD_TEMPLATE, marker)) !== 'exists') return;
  // It belongs to an earlier service of that name, and Kubernetes has not collected it yet.
  const old = await api.get(POD_TEMPLATE, marker.metadata);
  if (old) await removeObject(api, POD_TEMPLATE, old, { anyVersion: true });
  await createObject(api, POD_TEMPLATE, marker);
}

/** The services without a PodTemplate: the manager that created them may have died before it created that. */
export async function findUnmarked<T extends { readonly object: Stored<KubeObject> }>(
  entries: readonly T[],
  api: Api,
): Promise<T[]> {
  const { items } = await api.list(POD_TEMPLATE, {}, { labelSelector: SERVICE, metadataOnly: true });
  const placeOf = ({ metadata }: Stored<KubeObject>) => `${metadata.namespace}/${metadata.name}`;
  const markers = new Map(items.map((marker) => [placeOf(marker), marker.metadata.ownerReferences]));
  return entries.filter(({ object }) => {
    // A Go manager sets no owner, and with Knative it creates no PodTemplate.
    if (object.metadata.annotations?.[SERVICE_UID_ANNOTATION] === undefined) return false;
    const place = placeOf(object);
    const owners = markers.get(place) ?? [];
    const isAnothers = owners.length > 0 && owners.every(({ uid }) => uid !== object.metadata.uid);
    return !markers.has(place) || isAnothers;
  });
}

/**
 * Removes the other objects of a removed service. A failure is only reported: Kubernetes collects this manager's objects
 * by itself, and jobs of a Go manager end anyway.
 */
export async function removeServiceObjects(
  { metadata }: Stored<KubeObject>,
  api: Api,
  report: (problem: unknown) => void,
): Promise<void> {
  try {
    await removeMarker(metadata, api);
    await removeForeignJobs(metadata, api);
  } catch (error) {
    report(error);
  }
}

async function removeMarker({ namespace, name, uid }: Stored<KubeObject>['metadata'], api: Api): Promise<void> {
  const marker = await api.get(POD_TEMPLATE, { namespace, name });
  const owners = marker?.metadata.ownerReferences;
  const ours = owners?.some((owner) => owner.uid === uid);
  // A Go manager sets no owner.
  const fromGo = !owners && marker?.metadata.labels?.[SERVICE] === name;
  if (marker && (ours || fromGo)) await removeObject(api, POD_TEMPLATE, marker, { anyVersion: true });
}

/** Removes the Jobs that a Go manager created for the service (docs/go-manager.md#services). */
async function removeForeignJobs({ namespace, name }: Stored<KubeObject>['metadata'], api: Api): Promise<void> {
  const labelSelector = `${SERVICE}=${name},!${RECORD}`;
  const { items } = await api.list(JOB, { namespace }, { labelSelector, metadataOnly: true });
  for (const job of items) await removeObject(api, JOB, job, { anyVersion: true });
}
