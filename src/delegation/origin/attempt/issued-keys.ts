import type { JobKey } from '../../../cluster/index.ts';
import { roomName } from '../../../jobs/index.ts';
import type { KeyScope, ObjectStore } from '../../../storage/index.ts';

/**
 * How long keys of a job work for the cluster that runs it, in seconds. Longer: a cluster that lost the job can write to its
 * staging area for longer, where nobody looks. Shorter: a single transfer must end within it.
 */
export const KEY_SECONDS = 60 * 60;

/** The keys that other clusters were given, so that they end with the job. After a restart they expire on their own. */
export class IssuedKeys {
  readonly #objects: Pick<ObjectStore, 'issue' | 'revoke'>;
  readonly #ids = new Map<string, string[]>();

  constructor(objects: Pick<ObjectStore, 'issue' | 'revoke'>) {
    this.#objects = objects;
  }

  async issue(job: JobKey, scope: KeyScope, onBehalfOf: string) {
    const keys = await this.#objects.issue(scope, KEY_SECONDS, onBehalfOf);
    const name = roomName(job);
    if (keys.revocable) this.#ids.set(name, [...(this.#ids.get(name) ?? []), keys.id]);
    return keys;
  }

  async revoke(job: JobKey): Promise<void> {
    const name = roomName(job);
    const ids = this.#ids.get(name) ?? [];
    this.#ids.delete(name);
    await Promise.all(ids.map((id) => this.#objects.revoke(id)));
  }
}
