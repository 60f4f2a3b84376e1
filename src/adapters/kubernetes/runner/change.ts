import type { Api } from '../client/api.ts';
import { toStoreError } from '../client/api-error.ts';
import type { KubeKind, KubeObject, Stored } from '../client/kinds.ts';
import { describeObject, isSuperseded, replaceObject } from '../client/writes.ts';

/**
 * Changes one object, whoever changes it at the same time. `next` gives what it is to be, or undefined to leave it as it is.
 * Resolves to what is there then; undefined when there is none any more.
 */
export async function change<T extends KubeObject>(
  api: Api,
  kind: KubeKind,
  { metadata: { name, namespace, uid } }: Stored<KubeObject>,
  next: (there: Stored<T>) => T | undefined,
): Promise<Stored<T> | undefined> {
  for (;;) {
    const there = await read<T>(api, kind, { metadata: { name, ...(namespace !== undefined && { namespace }) } });
    if (there?.metadata.uid !== uid) return undefined;
    const wanted = next(there);
    if (!wanted) return there;
    const written = await replaceObject(api, kind, wanted, there);
    if (written === 'absent') return undefined;
    if (written !== 'conflict' && !isSuperseded(written)) return written;
  }
}

export async function read<T extends KubeObject>(
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
