import type { Api } from '../../api/api.ts';
import { toStoreError } from '../../api/api-error.ts';
import type { Kind, KubeObject, Stored } from '../../api/kinds.ts';
import { describe, isSuperseded, replace } from '../../api/writes.ts';

/**
 * Changes one object, whoever changes it at the same time. `next` gives what it is to be, or undefined to leave it as it is.
 * Resolves to what is there then; undefined when there is none any more.
 */
export async function change<T extends KubeObject>(
  api: Api,
  kind: Kind,
  { metadata: { name, namespace, uid } }: Stored<KubeObject>,
  next: (there: Stored<T>) => T | undefined,
): Promise<Stored<T> | undefined> {
  for (;;) {
    const there = await read<T>(api, kind, { metadata: { name, ...(namespace !== undefined && { namespace }) } });
    if (there?.metadata.uid !== uid) return undefined;
    const wanted = next(there);
    if (!wanted) return there;
    const written = await replace(api, kind, wanted, there);
    if (written === 'absent') return undefined;
    if (written !== 'conflict' && !isSuperseded(written)) return written;
  }
}

export async function read<T extends KubeObject>(
  api: Api,
  kind: Kind,
  object: KubeObject,
): Promise<Stored<T> | undefined> {
  const { name, namespace } = object.metadata;
  try {
    return await api.get<T>(kind, { name, namespace });
  } catch (error) {
    throw toStoreError(error, `read ${describe(kind, object)}`);
  }
}
