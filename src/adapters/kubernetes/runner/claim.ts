import { createHash } from 'node:crypto';
import type { Attempt } from '../../../model/job/index.ts';
import { ORDER_FILES } from '../../../staging/index.ts';
import type { Api } from '../client/api.ts';
import { SECRET, type SecretObject, type Stored } from '../client/kinds.ts';
import { createObject, readObject, removeObject, updateObject } from '../client/writes.ts';
import { type StagingOptions, toBase64, warmData } from './attempt-secret.ts';
import { readNotes, withAnnotations } from './notes.ts';
import { type AttemptPlace, findAttemptPlace } from './place.ts';
import { ATTEMPT, CLAIMED, claimedAt, POD, type Pod, parseTime, WARM } from './pod.ts';
import { buildWarmPod, type PodBasis, type PodSettings, podDeadlineSeconds, podMetadata } from './pod-spec.ts';

/** Value of the label `WARM` on a pod that no attempt may claim any more. */
const UNUSABLE = 'nothing';

/** Annotation. Changing it makes the kubelet sync the pod and its Secret at once; otherwise that may take a minute or two. */
const KEYS_WRITTEN = 'oscar.grycap/attempt-keys';

interface ClaimDeps {
  readonly api: Api;
  readonly settings: PodSettings;
  readonly stagingOptions: StagingOptions;
}

interface WarmPodChoice {
  readonly attempt: string;
  readonly pod: string;
  readonly namespace: string;
}

/**
 * Claims a warm pod for this attempt by one write: of two attempts one gets it, and nothing runs in it before. Resolves to
 * the pod, or to undefined if this attempt can never get it: it is gone, claimed by another attempt, or marked unusable.
 */
export async function claimWarmPod(
  chosen: WarmPodChoice,
  attempt: Attempt,
  { api, settings }: ClaimDeps,
): Promise<Stored<Pod> | undefined> {
  const { namespace } = chosen;
  const place = await findAttemptPlace(attempt, namespace, api);
  // A manager that was paused for long may continue with a job that was removed meanwhile.
  if (attempt.traits && !place.record) return forgoWarmPod(chosen, api);
  const key = warmKey(attempt.traits?.job.service ?? '', attempt, namespace, settings);
  return decideClaim(chosen, api, (pod) =>
    isUsable(pod, key) ? withClaim(pod, attempt, place, settings) : markUnusable(pod),
  );
}

/** Gives up a warm pod: if this attempt has not claimed it by now, the pod is marked unusable. Resolves to the pod if it has. */
export async function forgoWarmPod(chosen: WarmPodChoice, api: Api): Promise<Stored<Pod> | undefined> {
  return decideClaim(chosen, api, markUnusable);
}

async function decideClaim(
  { attempt, pod: name, namespace }: WarmPodChoice,
  api: Api,
  next: (pod: Stored<Pod>) => Pod,
): Promise<Stored<Pod> | undefined> {
  const found = await readObject<Pod>(api, POD, { metadata: { name, namespace } });
  const pod =
    found && (await updateObject<Pod>(api, POD, found, (there) => (isUnclaimed(there) ? next(there) : undefined)));
  return pod?.metadata.labels?.[ATTEMPT] === attempt ? pod : undefined;
}

const isUnclaimed = ({ metadata }: Pod) => metadata.labels?.[ATTEMPT] === '' && metadata.labels[WARM] !== UNUSABLE;

const isUsable = ({ metadata, status }: Pod, key: string) =>
  metadata.labels?.[WARM] === key && metadata.deletionTimestamp === undefined && status?.phase === 'Running';

const markUnusable = (pod: Stored<Pod>): Pod => ({
  ...pod,
  metadata: { ...pod.metadata, labels: { ...pod.metadata.labels, [WARM]: UNUSABLE } },
});

function withClaim(pod: Stored<Pod>, attempt: Attempt, place: AttemptPlace, settings: PodSettings): Pod {
  const { name: _, namespace: __, annotations, ...given } = podMetadata(attempt, place);
  const age =
    Date.now() - (parseTime(pod.status?.startTime) ?? parseTime(pod.metadata.creationTimestamp) ?? Date.now());
  return {
    ...pod,
    metadata: {
      ...pod.metadata,
      ...given,
      annotations: { ...pod.metadata.annotations, ...annotations, [CLAIMED]: String(Date.now()) },
    },
    // The kubelet counts from the start of the pod. A deadline can be added once and then only be shortened.
    spec: {
      ...pod.spec,
      activeDeadlineSeconds: podDeadlineSeconds(attempt, settings) + Math.ceil(Math.max(0, age) / 1_000),
    },
  };
}

/** Creates the Secret for which a claimed pod waits ({@link notifyKubelet}). Calling it again only renews the keys. */
export async function writeOrdersSecret(
  pod: Stored<Pod>,
  attempt: Attempt,
  keys: string,
  { api, stagingOptions }: ClaimDeps,
): Promise<void> {
  const { name, namespace = '', uid } = pod.metadata;
  const { apiVersion, kind } = POD;
  const secret: SecretObject = {
    metadata: { name, namespace, ownerReferences: [{ apiVersion, kind, name, uid }] },
    type: 'Opaque',
    data: warmData(attempt, keys, stagingOptions),
  };
  // An earlier manager created it, and its keys may have expired since.
  if ((await createObject(api, SECRET, secret)) === 'exists') await renewKeysInOrders(pod, keys, api);
}

/** Writes renewed keys for a claimed pod, if it has its orders. */
export async function renewKeysInOrders(pod: Stored<Pod>, keys: string, api: Api): Promise<void> {
  const orders = await readObject<SecretObject>(api, SECRET, pod);
  if (!orders) return;
  const stores = { [ORDER_FILES.stores]: toBase64(keys) };
  await updateObject<SecretObject>(api, SECRET, orders, (there) => ({ ...there, data: { ...there.data, ...stores } }));
}

/** Makes the kubelet read the Secret of the pod again. */
export async function notifyKubelet(pod: Stored<Pod>, api: Api): Promise<Stored<Pod> | undefined> {
  return updateObject<Pod>(api, POD, pod, (there) =>
    withAnnotations(there, { [KEYS_WRITTEN]: new Date().toISOString() }),
  );
}

/** Removes the orders of a claimed pod after its end. */
export async function removeOrders(pod: Stored<Pod>, api: Api): Promise<void> {
  const orders = await readObject<SecretObject>(api, SECRET, pod);
  if (orders) await removeObject(api, SECRET, orders, { anyVersion: true });
}

/** Identifies interchangeable warm pods, as a label value: pods with one key differ only in their names. */
export function warmKey(service: string, basis: PodBasis, namespace: string, settings: PodSettings): string {
  const pod = buildWarmPod(basis, { name: '', namespace }, settings);
  const text = JSON.stringify([service, pod]);
  return createHash('sha256').update(text).digest('hex').slice(0, 40);
}

/**
 * Writes renewed keys where the pod of an attempt reads them: in the Secret of the attempt, or, for a warm pod, in the Secret
 * of the pod. The latter is created together with the orders and then already has the newest keys.
 */
export async function writeRenewedKeys(
  keys: string,
  record: Stored<SecretObject>,
  pod: Stored<Pod> | undefined,
  api: Api,
): Promise<void> {
  if (pod && claimedAt(pod) !== undefined) await renewKeysInOrders(pod, keys, api);
  else
    await updateObject<SecretObject>(api, SECRET, record, (there) => {
      const { end, pod: chosen } = readNotes(there);
      const nobodyReads = end !== undefined || chosen !== undefined;
      return nobodyReads ? undefined : { ...there, data: { ...there.data, [ORDER_FILES.stores]: toBase64(keys) } };
    });
  if (pod?.spec.nodeName !== undefined) await notifyKubelet(pod, api);
}
