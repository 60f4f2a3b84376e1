import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { StoreError } from '../../../ports/index.ts';
import { type Api, backoff, retryAfter } from './api.ts';
import { isAbsent, isConflict, isForbidden, isTransient, isUnknown, toStoreError } from './api-error.ts';
import type { KubeKind, KubeObject, Stored } from './kinds.ts';

/**
 * Writes whose outcome is known. A connection that is cut, or a server that gives up, leaves open whether a write
 * happened: then the object is looked at, and since every write leaves its own mark, what is there tells. A write that
 * did not happen is sent again, which is safe because each of them is a compare-and-swap.
 *
 * The mark also makes every write a change: to the API, writing what is there already is none, and gives no new version.
 */

/** The marks of the last writes, the newest first. */
const MARKS = 'oscar.grycap/writes';

/**
 * How many marks are kept. Whoever lost the answer to a write must find its mark before that many others have written
 * the same object.
 */
const KEPT_MARKS = 8;

type Marked<T extends KubeObject> = { readonly object: T; readonly mark: string };

function marked<T extends KubeObject>(object: T, before: Stored<KubeObject> | undefined): Marked<T> {
  const mark = randomUUID().slice(0, 13);
  const marks = [mark, ...marksOf(before)].slice(0, KEPT_MARKS).join(' ');
  const annotations = { ...object.metadata.annotations, [MARKS]: marks };
  return { mark, object: { ...object, metadata: { ...object.metadata, annotations } } };
}

function marksOf(object: KubeObject | undefined): string[] {
  return object?.metadata.annotations?.[MARKS]?.split(' ') ?? [];
}

/** Makes an object, or says that there is one of that name. */
export async function createObject<T extends KubeObject>(
  api: Api,
  kind: KubeKind,
  object: T,
): Promise<Stored<T> | 'exists'> {
  const { namespace, name } = object.metadata;
  const { object: body, mark } = marked(object, undefined);
  return settle<Stored<T> | 'exists'>(api, `create ${describeObject(kind, object)}`, {
    async send(repeated) {
      try {
        return await api.post(kind, namespace, body);
      } catch (error) {
        if (!isConflict(error)) throw error;
        return repeated ? 'look' : 'exists';
      }
    },
    async look() {
      const found = await api.get<T>(kind, { namespace, name });
      if (!found) return 'send';
      return marksOf(found).includes(mark) ? found : 'exists';
    },
  });
}

/**
 * Replaces an object that is in the version it names (`metadata.resourceVersion`). `before` is that version, if it is at
 * hand: its marks are carried on.
 */
export async function replaceObject<T extends KubeObject>(
  api: Api,
  kind: KubeKind,
  object: T,
  before?: Stored<KubeObject>,
): Promise<Stored<T> | 'conflict' | 'absent'> {
  const { namespace, name, resourceVersion } = object.metadata;
  const { object: body, mark } = marked(object, before);
  return settle<Stored<T> | 'conflict' | 'absent'>(api, `change ${describeObject(kind, object)}`, {
    async send(repeated) {
      try {
        return await api.put(kind, { namespace, name }, body);
      } catch (error) {
        if (repeated && (isConflict(error) || isAbsent(error))) return 'look';
        if (isConflict(error)) return 'conflict';
        if (isAbsent(error)) return 'absent';
        throw error;
      }
    },
    async look() {
      const found = await api.get<T>(kind, { namespace, name });
      if (!found) return 'absent';
      const [last, ...earlier] = marksOf(found);
      if (last === mark) return found;
      // It happened, and somebody has written since. Its version fits nothing any more, so any that fits nothing will do.
      if (earlier.includes(mark)) return { ...found, ...body, metadata: { ...found.metadata, resourceVersion: mark } };
      return found.metadata.resourceVersion === resourceVersion ? 'send' : 'conflict';
    },
  });
}

/** Has it been written again by somebody else, before it was found out that it had been written? */
export const isSuperseded = ({ metadata }: Stored<KubeObject>) => metadata.resourceVersion.includes('-');

/** Removes one version of an object, or one object in whatever version. */
export async function removeObject(
  api: Api,
  kind: KubeKind,
  object: Stored<KubeObject>,
  { anyVersion = false } = {},
): Promise<'removed' | 'conflict' | 'absent'> {
  const { namespace, name, uid, resourceVersion } = object.metadata;
  const preconditions = anyVersion ? { uid } : { uid, resourceVersion };
  return settle<'removed' | 'conflict' | 'absent'>(api, `remove ${describeObject(kind, object)}`, {
    async send(repeated) {
      try {
        await api.delete(kind, { namespace, name }, preconditions);
        return 'removed';
      } catch (error) {
        if (isAbsent(error)) return repeated ? 'removed' : 'absent';
        if (isConflict(error)) return repeated ? 'look' : 'conflict';
        throw error;
      }
    },
    async look() {
      const found = await api.get(kind, { namespace, name });
      if (found?.metadata.uid !== uid) return 'removed';
      return anyVersion || found.metadata.resourceVersion === resourceVersion ? 'send' : 'conflict';
    },
  });
}

interface Write<T> {
  /** `repeated`: an earlier attempt may have succeeded. */
  send(repeated: boolean): Promise<T | 'look'>;
  look(): Promise<T | 'send'>;
}

async function settle<T>(api: Api, doing: string, write: Write<T>): Promise<T> {
  const { patienceMs, random } = api.options;
  // The patience is with the server: what was waited for others before the first answer does not count.
  let begin: number | undefined;
  let unknown = false;
  for (let repetition = 0; ; repetition++) {
    try {
      const seen = unknown ? await write.look() : 'send';
      const outcome = seen === 'send' ? await write.send(unknown) : seen;
      if (outcome !== 'look') return outcome;
    } catch (error) {
      begin ??= performance.now();
      // Whoever must find out what became of a write is not turned away by a server that just starts.
      const passing = isTransient(error, performance.now() - begin) || (unknown && isForbidden(error));
      if (!passing) throw toStoreError(error, doing);
      unknown ||= isUnknown(error);
      const delay = Math.max(backoff(repetition, random, 1_000), retryAfter(error));
      if (performance.now() + delay > begin + patienceMs) throw givenUp(error, doing, unknown);
      await pause(delay);
    }
  }
}

function givenUp(error: unknown, doing: string, unknown: boolean): unknown {
  const known = toStoreError(error, doing);
  if (!unknown || !(known instanceof StoreError)) return known;
  return new StoreError(
    'unavailable',
    `${known.message}. It may have happened all the same: look before you try again`,
    { cause: error },
  );
}

/** "configmap x in namespace y", for sentences. */
export function describeObject(kind: KubeKind, { metadata }: KubeObject): string {
  const where = metadata.namespace === undefined ? '' : ` in namespace ${metadata.namespace}`;
  return `${kind.kind} ${metadata.name}${where}`;
}
