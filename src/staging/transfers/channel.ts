import type { Network } from '../../lib/http/index.ts';
import { Secret } from '../../lib/secret.ts';
import type { StoreAccess } from '../../model/job/index.ts';
import { StagingError, type StagingErrorCode } from './errors.ts';
import type { FetchOrder, Staging, UploadOrder, UploadPlan } from './staging.ts';

/**
 * What the manager and a worker say to each other. A secret is not something that can be copied into a message, so it
 * leaves its wrapping at one end and gets it back at the other.
 */
export type ToWorker =
  | { readonly kind: 'begin'; readonly networks: readonly Network[] }
  | { readonly kind: 'task'; readonly id: number; readonly task: Bare<Task> };

export type FromWorker =
  | { readonly kind: 'ready' }
  | { readonly kind: 'done'; readonly id: number; readonly result: TaskResult }
  | { readonly kind: 'failed'; readonly id: number; readonly code: StagingErrorCode; readonly message: string };

export type Task =
  | { readonly kind: 'fetch'; readonly order: FetchOrder }
  | { readonly kind: 'plan'; readonly parameters: Parameters<Staging['plan']> }
  | { readonly kind: 'upload'; readonly order: UploadOrder }
  | { readonly kind: 'pack'; readonly parameters: Parameters<Staging['pack']> };

export type TaskResult = UploadPlan | boolean | string | undefined;

/** The same with its secrets as they are. */
type Bare<T> = T extends Secret
  ? { readonly secret: string }
  : T extends ReadonlyMap<infer K, infer V>
    ? ReadonlyMap<K, Bare<V>>
    : T extends object
      ? { readonly [Key in keyof T]: Bare<T[Key]> }
      : T;

export function unwrapSecrets(task: Task): Bare<Task> {
  if (task.kind === 'fetch') return { kind: 'fetch', order: { ...task.order, access: bareAccess(task.order.access) } };
  if (task.kind !== 'upload') return task;
  const stores = new Map([...task.order.stores].map(([id, access]) => [id, bareAccess(access)]));
  return { kind: 'upload', order: { ...task.order, stores } };
}

export function wrapped(task: Bare<Task>): Task {
  if (task.kind === 'fetch')
    return { kind: 'fetch', order: { ...task.order, access: wrappedAccess(task.order.access) } };
  if (task.kind !== 'upload') return task as Task;
  const stores = new Map([...task.order.stores].map(([id, access]) => [id, wrappedAccess(access)]));
  return { kind: 'upload', order: { ...task.order, stores } };
}

const bareSecret = (secret: Secret) => ({ secret: secret.reveal() });
const wrappedSecret = ({ secret }: Bare<Secret>) => new Secret(secret);

function bareAccess(access: StoreAccess): Bare<StoreAccess> {
  if (access.type === 'webdav') return { ...access, password: bareSecret(access.password) };
  const { accessKey, secretKey, sessionToken, ...rest } = access;
  return {
    ...rest,
    accessKey: bareSecret(accessKey),
    secretKey: bareSecret(secretKey),
    ...(sessionToken && { sessionToken: bareSecret(sessionToken) }),
  };
}

function wrappedAccess(access: Bare<StoreAccess>): StoreAccess {
  if (access.type === 'webdav') return { ...access, password: wrappedSecret(access.password) };
  const { accessKey, secretKey, sessionToken, ...rest } = access;
  return {
    ...rest,
    accessKey: wrappedSecret(accessKey),
    secretKey: wrappedSecret(secretKey),
    ...(sessionToken && { sessionToken: wrappedSecret(sessionToken) }),
  };
}

/** What the worker says of a failure. One that nobody foresaw is told as it is: the sentence is all that arrives. */
export function describeFailure(error: unknown): { readonly code: StagingErrorCode; readonly message: string } {
  if (error instanceof StagingError) return { code: error.code, message: error.message };
  const why = error instanceof Error ? error.message : String(error);
  return { code: 'staging-unavailable', message: `files could not be moved: ${why}` };
}
