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

/** On a pod that waits in place of what it is good for: nobody is to have it. */
const NOTHING = 'nothing';

/** Makes the kubelet look at the pod, and with it at its Secret: by itself it may take a minute or two. */
const TOLD = 'oscar.grycap/attempt-keys';

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
 * Makes a pod that waits the pod of this attempt, by one write on it: of two who want it, one gets it, and nothing runs in
 * it before that. Resolves to it. Otherwise to undefined, and then this attempt will never have it, whoever tries: it is
 * gone, it is another's, or it is nobody's for ever.
 */
export async function claimWarmPod(
  chosen: WarmPodChoice,
  attempt: Attempt,
  { api, settings }: ClaimDeps,
): Promise<Stored<Pod> | undefined> {
  const { namespace } = chosen;
  const place = await findAttemptPlace(attempt, namespace, api);
  // A manager that was paused for long may come back to a job that was removed meanwhile.
  if (attempt.traits && !place.record) return forgoWarmPod(chosen, api);
  const key = warmKey(attempt.traits?.job.service ?? '', attempt, namespace, settings);
  return decideClaim(chosen, api, (pod) =>
    isUsable(pod, key) ? withClaim(pod, attempt, place, settings) : markUnusable(pod),
  );
}

/** The same for who only wants to know: if it is not the attempt's by now, it never will be. */
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

const isUnclaimed = ({ metadata }: Pod) => metadata.labels?.[ATTEMPT] === '' && metadata.labels[WARM] !== NOTHING;

const isUsable = ({ metadata, status }: Pod, key: string) =>
  metadata.labels?.[WARM] === key && metadata.deletionTimestamp === undefined && status?.phase === 'Running';

const markUnusable = (pod: Stored<Pod>): Pod => ({
  ...pod,
  metadata: { ...pod.metadata, labels: { ...pod.metadata.labels, [WARM]: NOTHING } },
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
    // The kubelet counts from when the pod was started. It was there without one until now: it may only become less.
    spec: {
      ...pod.spec,
      activeDeadlineSeconds: podDeadlineSeconds(attempt, settings) + Math.ceil(Math.max(0, age) / 1_000),
    },
  };
}

/** Puts what a pod that was claimed waits for where its kubelet finds it ({@link notifyKubelet}). Again: nothing happens. */
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
  // By an earlier manager: what it was given then may have expired since.
  if ((await createObject(api, SECRET, secret)) === 'exists') await renewKeysInOrders(pod, keys, api);
}

/** Puts renewed keys where such a pod reads them, if it has its orders. */
export async function renewKeysInOrders(pod: Stored<Pod>, keys: string, api: Api): Promise<void> {
  const orders = await readObject<SecretObject>(api, SECRET, pod);
  if (!orders) return;
  const stores = { [ORDER_FILES.stores]: toBase64(keys) };
  await updateObject<SecretObject>(api, SECRET, orders, (there) => ({ ...there, data: { ...there.data, ...stores } }));
}

/** The kubelet looks at its Secret again. */
export async function notifyKubelet(pod: Stored<Pod>, api: Api): Promise<Stored<Pod> | undefined> {
  return updateObject<Pod>(api, POD, pod, (there) => withAnnotations(there, { [TOLD]: new Date().toISOString() }));
}

/** Its keys open nothing any more; what is left of it goes with its pod. */
export async function removeOrders(pod: Stored<Pod>, api: Api): Promise<void> {
  const orders = await readObject<SecretObject>(api, SECRET, pod);
  if (orders) await removeObject(api, SECRET, orders, { anyVersion: true });
}

/** What a pod that waits is good for: pods of one key differ in nothing but their names. As the value of a label. */
export function warmKey(service: string, basis: PodBasis, namespace: string, settings: PodSettings): string {
  const pod = buildWarmPod(basis, { name: '', namespace }, settings);
  const text = JSON.stringify([service, pod]);
  return createHash('sha256').update(text).digest('hex').slice(0, 40);
}

/**
 * Puts renewed keys where the pod of an attempt reads them: in the record, or, if it has waited, in the Secret of its own
 * name. That one is not there before its orders are, and then it has the newest already.
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
