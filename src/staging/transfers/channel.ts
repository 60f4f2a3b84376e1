import type { Network } from '../../lib/http/index.ts';
import { Secret } from '../../lib/secret.ts';
import type { StoreAccess } from '../../model/job/index.ts';
import { StagingError, type StagingErrorCode } from './errors.ts';
import type { FetchOrder, Staging, UploadOrder, UploadPlan } from './staging.ts';

/**
 * The messages between the manager and a worker. A `Secret` cannot be serialized, so it is revealed at one end and
 * wrapped again at the other.
 */
export type ToWorker =
  | { readonly kind: 'begin'; readonly networks: readonly Network[] }
  | { readonly kind: 'task'; readonly id: number; readonly task: Revealed<Task> };

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

/** The same type with revealed secrets. */
type Revealed<T> = T extends Secret
  ? { readonly secret: string }
  : T extends ReadonlyMap<infer K, infer V>
    ? ReadonlyMap<K, Revealed<V>>
    : T extends object
      ? { readonly [Key in keyof T]: Revealed<T[Key]> }
      : T;

export function unwrapSecrets(task: Task): Revealed<Task> {
  if (task.kind === 'fetch')
    return { kind: 'fetch', order: { ...task.order, access: revealAccess(task.order.access) } };
  if (task.kind !== 'upload') return task;
  const stores = new Map([...task.order.stores].map(([id, access]) => [id, revealAccess(access)]));
  return { kind: 'upload', order: { ...task.order, stores } };
}

export function wrapSecrets(task: Revealed<Task>): Task {
  if (task.kind === 'fetch') return { kind: 'fetch', order: { ...task.order, access: wrapAccess(task.order.access) } };
  if (task.kind !== 'upload') return task as Task;
  const stores = new Map([...task.order.stores].map(([id, access]) => [id, wrapAccess(access)]));
  return { kind: 'upload', order: { ...task.order, stores } };
}

const revealSecret = (secret: Secret) => ({ secret: secret.reveal() });
const wrapSecret = ({ secret }: Revealed<Secret>) => new Secret(secret);

function revealAccess(access: StoreAccess): Revealed<StoreAccess> {
  if (access.type === 'webdav') return { ...access, password: revealSecret(access.password) };
  const { accessKey, secretKey, sessionToken, ...rest } = access;
  return {
    ...rest,
    accessKey: revealSecret(accessKey),
    secretKey: revealSecret(secretKey),
    ...(sessionToken && { sessionToken: revealSecret(sessionToken) }),
  };
}

function wrapAccess(access: Revealed<StoreAccess>): StoreAccess {
  if (access.type === 'webdav') return { ...access, password: wrapSecret(access.password) };
  const { accessKey, secretKey, sessionToken, ...rest } = access;
  return {
    ...rest,
    accessKey: wrapSecret(accessKey),
    secretKey: wrapSecret(secretKey),
    ...(sessionToken && { sessionToken: wrapSecret(sessionToken) }),
  };
}

/**
 * What the worker reports about a failure. The manager gets only code and message, so an unexpected error is quoted.
 */
export function describeFailure(error: unknown): { readonly code: StagingErrorCode; readonly message: string } {
  if (error instanceof StagingError) return { code: error.code, message: error.message };
  const why = error instanceof Error ? error.message : String(error);
  return { code: 'staging-unavailable', message: `files could not be moved: ${why}` };
}
