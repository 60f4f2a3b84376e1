import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { StoreError } from '../../../ports/index.ts';
import { type Api, backoff, retryAfterMs } from './api.ts';
import { isAbsent, isConflict, isForbidden, isTransient, isUnknown, toStoreError } from './api-error.ts';
import type { KubeKind, KubeObject, Stored } from './kinds.ts';

/**
 * Writes with a known outcome. When the connection is cut or the server gives up, it is unknown whether a write happened.
 * Then the object is read again: every write leaves its own id in an annotation, so the object shows whether the write
 * arrived. A write that did not happen is sent again, which is safe because every write is a compare-and-swap.
 *
 * The id also makes every write a change. Without it, writing identical content would give the object no new version.
 */

/** Annotation with the ids of the last writes, the newest first. */
const WRITE_IDS = 'oscar.grycap/writes';

/**
 * How many ids are kept. With fewer, a manager that lost the answer to a write may not find its id after other writes of
 * the same object, and then reports a conflict for a write that succeeded; more make every object larger.
 */
const KEPT_WRITE_IDS = 8;

type Stamped<T extends KubeObject> = { readonly object: T; readonly writeId: string };

function withWriteId<T extends KubeObject>(object: T, before: Stored<KubeObject> | undefined): Stamped<T> {
  const writeId = randomUUID().slice(0, 13);
  const writeIds = [writeId, ...writeIdsOn(before)].slice(0, KEPT_WRITE_IDS).join(' ');
  const annotations = { ...object.metadata.annotations, [WRITE_IDS]: writeIds };
  return { writeId, object: { ...object, metadata: { ...object.metadata, annotations } } };
}

function writeIdsOn(object: KubeObject | undefined): string[] {
  return object?.metadata.annotations?.[WRITE_IDS]?.split(' ') ?? [];
}

/** Creates an object; `exists` if there is one of that name. */
export async function createObject<T extends KubeObject>(
  api: Api,
  kind: KubeKind,
  object: T,
): Promise<Stored<T> | 'exists'> {
  const { namespace, name } = object.metadata;
  const { object: body, writeId } = withWriteId(object, undefined);
  return resolveWrite<Stored<T> | 'exists'>(api, `create ${describeObject(kind, object)}`, {
    async send(repeated) {
      try {
        return await api.post(kind, namespace, body);
      } catch (error) {
        if (!isConflict(error)) throw error;
        return repeated ? 'inspect' : 'exists';
      }
    },
    async inspect() {
      const found = await api.get<T>(kind, { namespace, name });
      if (!found) return 'send';
      return writeIdsOn(found).includes(writeId) ? found : 'exists';
    },
  });
}

/**
 * Replaces an object if its version is still `metadata.resourceVersion`. `before` is that version, if the caller has it: its
 * write ids are carried over.
 */
export async function replaceObject<T extends KubeObject>(
  api: Api,
  kind: KubeKind,
  object: T,
  before?: Stored<KubeObject>,
): Promise<Stored<T> | 'conflict' | 'absent'> {
  const { namespace, name, resourceVersion } = object.metadata;
  const { object: body, writeId } = withWriteId(object, before);
  return resolveWrite<Stored<T> | 'conflict' | 'absent'>(api, `change ${describeObject(kind, object)}`, {
    async send(repeated) {
      try {
        return await api.put(kind, { namespace, name }, body);
      } catch (error) {
        if (repeated && (isConflict(error) || isAbsent(error))) return 'inspect';
        if (isConflict(error)) return 'conflict';
        if (isAbsent(error)) return 'absent';
        throw error;
      }
    },
    async inspect() {
      const found = await api.get<T>(kind, { namespace, name });
      if (!found) return 'absent';
      const [last, ...earlier] = writeIdsOn(found);
      if (last === writeId) return found;
      // The write happened, and another one followed. Its version is no longer current, so any stale version will do.
      if (earlier.includes(writeId))
        return { ...found, ...body, metadata: { ...found.metadata, resourceVersion: writeId } };
      return found.metadata.resourceVersion === resourceVersion ? 'send' : 'conflict';
    },
  });
}

/** Whether another writer replaced the object before this manager learnt that its own write had succeeded. */
export const isSuperseded = ({ metadata }: Stored<KubeObject>) => metadata.resourceVersion.includes('-');

/** Removes an object if it still has this version, or (`anyVersion`) whatever its version is. */
export async function removeObject(
  api: Api,
  kind: KubeKind,
  object: Stored<KubeObject>,
  { anyVersion = false } = {},
): Promise<'removed' | 'conflict' | 'absent'> {
  const { namespace, name, uid, resourceVersion } = object.metadata;
  const preconditions = anyVersion ? { uid } : { uid, resourceVersion };
  return resolveWrite<'removed' | 'conflict' | 'absent'>(api, `remove ${describeObject(kind, object)}`, {
    async send(repeated) {
      try {
        await api.delete(kind, { namespace, name }, preconditions);
        return 'removed';
      } catch (error) {
        if (isAbsent(error)) return repeated ? 'removed' : 'absent';
        if (isConflict(error)) return repeated ? 'inspect' : 'conflict';
        throw error;
      }
    },
    async inspect() {
      const found = await api.get(kind, { namespace, name });
      if (found?.metadata.uid !== uid) return 'removed';
      return anyVersion || found.metadata.resourceVersion === resourceVersion ? 'send' : 'conflict';
    },
  });
}

/**
 * Changes an object, and retries on conflicts. `next` returns the new object, or undefined to keep the current one. Resolves
 * to the resulting object; undefined when it no longer exists.
 */
export async function updateObject<T extends KubeObject>(
  api: Api,
  kind: KubeKind,
  { metadata: { name, namespace, uid } }: Stored<KubeObject>,
  next: (there: Stored<T>) => T | undefined,
): Promise<Stored<T> | undefined> {
  for (;;) {
    const there = await readObject<T>(api, kind, { metadata: { name, ...(namespace !== undefined && { namespace }) } });
    if (there?.metadata.uid !== uid) return undefined;
    const wanted = next(there);
    if (!wanted) return there;
    const written = await replaceObject(api, kind, wanted, there);
    if (written === 'absent') return undefined;
    if (written !== 'conflict' && !isSuperseded(written)) return written;
  }
}

export async function readObject<T extends KubeObject>(
  api: Api,
  kind: KubeKind,
  object: KubeObject,
): Promise<Stored<T> | undefined> {
  const { name, namespace } = object.metadata;
  try {
    return await api.get<T>(kind, { name, namespace });
  } catch (error) {
    throw toStoreError(error, `read ${describeObject(kind, object)}`);
  }
}

interface Write<T> {
  /** `repeated`: an earlier attempt may have succeeded. */
  send(repeated: boolean): Promise<T | 'inspect'>;
  inspect(): Promise<T | 'send'>;
}

async function resolveWrite<T>(api: Api, doing: string, write: Write<T>): Promise<T> {
  const { patienceMs, random } = api.options;
  // The retry time starts with the first failure: time spent waiting for the own limits does not count.
  let begin: number | undefined;
  let unknown = false;
  for (let retry = 0; ; retry++) {
    try {
      const seen = unknown ? await write.inspect() : 'send';
      const outcome = seen === 'send' ? await write.send(unknown) : seen;
      if (outcome !== 'inspect') return outcome;
    } catch (error) {
      begin ??= performance.now();
      // While the outcome of a write is unknown, a 403 of a server that is just starting is retried too.
      const retryable = isTransient(error, performance.now() - begin) || (unknown && isForbidden(error));
      if (!retryable) throw toStoreError(error, doing);
      unknown ||= isUnknown(error);
      const delay = Math.max(backoff(retry, random, 1_000), retryAfterMs(error));
      if (performance.now() + delay > begin + patienceMs) throw giveUpError(error, doing, unknown);
      await pause(delay);
    }
  }
}

function giveUpError(error: unknown, doing: string, unknown: boolean): unknown {
  const known = toStoreError(error, doing);
  if (!unknown || !(known instanceof StoreError)) return known;
  return new StoreError(
    'unavailable',
    `${known.message}. The write may have happened nevertheless: check before you retry`,
    { cause: error },
  );
}

/** "ConfigMap x in namespace y", for messages. */
export function describeObject(kind: KubeKind, { metadata }: KubeObject): string {
  const where = metadata.namespace === undefined ? '' : ` in namespace ${metadata.namespace}`;
  return `${kind.kind} ${metadata.name}${where}`;
}
