import { createHash } from 'node:crypto';
import type { Attempt } from '../../../model/job/index.ts';
import { ORDER_FILES } from '../../../staging/index.ts';
import type { Api } from '../client/api.ts';
import { SECRET, type SecretObject, type Stored } from '../client/kinds.ts';
import { createObject, removeObject } from '../client/writes.ts';
import { type PodHabits, toBase64, warmData } from './attempt-secret.ts';
import { change, read } from './change.ts';
import { attemptPlace } from './make-pod.ts';
import { noted } from './notes.ts';
import type { AttemptPlace } from './place.ts';
import { ATTEMPT, CLAIMED, POD, type Pod, timeOf, WARM } from './pod.ts';
import { deadlineOf, metadataOf, type PodBasis, type PodSettings, warmPodOf } from './pod-spec.ts';

/** On a pod that waits in place of what it is good for: nobody is to have it. */
const NOTHING = 'nothing';

/** Makes the kubelet look at the pod, and with it at its Secret: by itself it may take a minute or two. */
const TOLD = 'oscar.grycap/attempt-keys';

interface ClaimDeps {
  readonly api: Api;
  readonly settings: PodSettings;
  readonly habits: PodHabits;
}

interface Chosen {
  readonly attempt: string;
  readonly pod: string;
  readonly namespace: string;
}

/**
 * Makes a pod that waits the pod of this attempt, by one write on it: of two who want it, one gets it, and nothing runs in
 * it before that. Resolves to it. Otherwise to undefined, and then this attempt will never have it, whoever tries: it is
 * gone, it is another's, or it is nobody's for ever.
 */
export async function claim(
  chosen: Chosen,
  attempt: Attempt,
  { api, settings }: ClaimDeps,
): Promise<Stored<Pod> | undefined> {
  const { namespace } = chosen;
  const place = await attemptPlace(attempt, namespace, api);
  // A manager that was paused for long may come back to a job that was removed meanwhile.
  if (attempt.traits && !place.record) return forgo(chosen, api);
  const key = warmKey(attempt.traits?.job.service ?? '', attempt, namespace, settings);
  return settle(chosen, api, (pod) => (isGood(pod, key) ? claimed(pod, attempt, place, settings) : spoiled(pod)));
}

/** The same for who only wants to know: if it is not the attempt's by now, it never will be. */
export async function forgo(chosen: Chosen, api: Api): Promise<Stored<Pod> | undefined> {
  return settle(chosen, api, spoiled);
}

async function settle(
  { attempt, pod: name, namespace }: Chosen,
  api: Api,
  next: (pod: Stored<Pod>) => Pod,
): Promise<Stored<Pod> | undefined> {
  const found = await read<Pod>(api, POD, { metadata: { name, namespace } });
  const pod = found && (await change<Pod>(api, POD, found, (there) => (isFree(there) ? next(there) : undefined)));
  return pod?.metadata.labels?.[ATTEMPT] === attempt ? pod : undefined;
}

const isFree = ({ metadata }: Pod) => metadata.labels?.[ATTEMPT] === '' && metadata.labels[WARM] !== NOTHING;

const isGood = ({ metadata, status }: Pod, key: string) =>
  metadata.labels?.[WARM] === key && metadata.deletionTimestamp === undefined && status?.phase === 'Running';

const spoiled = (pod: Stored<Pod>): Pod => ({
  ...pod,
  metadata: { ...pod.metadata, labels: { ...pod.metadata.labels, [WARM]: NOTHING } },
});

function claimed(pod: Stored<Pod>, attempt: Attempt, place: AttemptPlace, settings: PodSettings): Pod {
  const { name: _, namespace: __, annotations, ...given } = metadataOf(attempt, place);
  const age = Date.now() - (timeOf(pod.status?.startTime) ?? timeOf(pod.metadata.creationTimestamp) ?? Date.now());
  return {
    ...pod,
    metadata: {
      ...pod.metadata,
      ...given,
      annotations: { ...pod.metadata.annotations, ...annotations, [CLAIMED]: String(Date.now()) },
    },
    // The kubelet counts from when the pod was started. It was there without one until now: it may only become less.
    spec: { ...pod.spec, activeDeadlineSeconds: deadlineOf(attempt, settings) + Math.ceil(Math.max(0, age) / 1_000) },
  };
}

/** Puts what a pod that was claimed waits for where its kubelet finds it ({@link remind}). Again: nothing happens. */
export async function giveOrders(
  pod: Stored<Pod>,
  attempt: Attempt,
  keys: string,
  { api, habits }: ClaimDeps,
): Promise<void> {
  const { name, namespace = '', uid } = pod.metadata;
  const { apiVersion, kind } = POD;
  const secret: SecretObject = {
    metadata: { name, namespace, ownerReferences: [{ apiVersion, kind, name, uid }] },
    type: 'Opaque',
    data: warmData(attempt, keys, habits),
  };
  // By an earlier manager: what it was given then may have expired since.
  if ((await createObject(api, SECRET, secret)) === 'exists') await renewOrders(pod, keys, api);
}

/** Puts renewed keys where such a pod reads them, if it has its orders. */
export async function renewOrders(pod: Stored<Pod>, keys: string, api: Api): Promise<void> {
  const orders = await read<SecretObject>(api, SECRET, pod);
  if (!orders) return;
  const stores = { [ORDER_FILES.stores]: toBase64(keys) };
  await change<SecretObject>(api, SECRET, orders, (there) => ({ ...there, data: { ...there.data, ...stores } }));
}

/** The kubelet looks at its Secret again. */
export async function remind(pod: Stored<Pod>, api: Api): Promise<Stored<Pod> | undefined> {
  return change<Pod>(api, POD, pod, (there) => noted(there, { [TOLD]: new Date().toISOString() }));
}

/** Its keys open nothing any more; what is left of it goes with its pod. */
export async function removeOrders(pod: Stored<Pod>, api: Api): Promise<void> {
  const orders = await read<SecretObject>(api, SECRET, pod);
  if (orders) await removeObject(api, SECRET, orders, { anyVersion: true });
}

/** What a pod that waits is good for: pods of one key differ in nothing but their names. As the value of a label. */
export function warmKey(service: string, basis: PodBasis, namespace: string, settings: PodSettings): string {
  const pod = warmPodOf(basis, { name: '', namespace }, settings);
  const text = JSON.stringify([service, pod]);
  return createHash('sha256').update(text).digest('hex').slice(0, 40);
}
