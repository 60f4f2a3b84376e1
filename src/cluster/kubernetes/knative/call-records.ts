import type { Attempt } from '../../attempt.ts';
import type { Api } from '../api/api.ts';
import { toStoreError } from '../api/api-error.ts';
import { Informer, type InformerOptions } from '../api/informer.ts';
import { CONFIG_MAP, type ConfigMap, type Stored } from '../api/kinds.ts';
import { create, remove } from '../api/writes.ts';
import { placeOf } from '../runner/make-pod.ts';
import { ownersOf } from '../runner/pod/place.ts';
import { change, read } from '../runner/state/change.ts';
import { Latest } from '../runner/state/latest.ts';
import { endNote, factsNote, noted, notesOf } from '../runner/state/notes.ts';
import type { End } from '../runner/verdict/end.ts';

/** On the record of a call: the name of its attempt. */
const CALL = 'oscar.grycap/call';

/**
 * What is written down of calls: that one was begun, before it is, and how it ended. A ConfigMap each, which belongs to the
 * job. Every manager of the cluster has all of them in mind.
 */
export class CallRecords {
  readonly #api: Api;
  readonly #records: Latest<ConfigMap>;
  readonly #informer: Informer<ConfigMap>;
  #news = Promise.withResolvers<void>();

  constructor(api: Api, watch: Pick<InformerOptions, 'watchMs' | 'silenceMs'>, report: (problem: unknown) => void) {
    this.#api = api;
    this.#records = new Latest<ConfigMap>(
      ({ metadata }) => ({ metadata }),
      () => this.#ring(),
      (problem) => report(toStoreError(problem, 'watch the records of calls')),
    );
    this.#informer = new Informer(api, CONFIG_MAP, this.#records, { labelSelector: CALL, ...watch });
  }

  /** Resolves when all are known. */
  async open(): Promise<void> {
    await this.#informer.start();
  }

  async close(): Promise<void> {
    await this.#informer.stop();
    this.#ring();
  }

  names(): string[] {
    return this.#records.names();
  }

  /** As far as is known here. */
  get(name: string): Stored<ConfigMap> | undefined {
    return this.#records.get(name);
  }

  /** The server is asked once: another manager may have made it just now. */
  async find(name: string): Promise<Stored<ConfigMap> | undefined> {
    const known = this.#records.get(name);
    if (known) return known;
    const { items } = await this.#api
      .page<ConfigMap>(CONFIG_MAP, {}, { labelSelector: `${CALL}=${name}`, limit: 1 })
      .catch((error: unknown) => {
        throw toStoreError(error, `look for the call ${name}`);
      });
    for (const object of items ?? []) this.#records.put(object);
    return this.#records.get(name);
  }

  endOf(name: string): End | undefined {
    const record = this.#records.get(name);
    return record && notesOf(record).end;
  }

  /** Resolves when any of them changes. Ask before you look. */
  get news(): Promise<void> {
    return this.#news.promise;
  }

  /** Says if it was made just now: whoever did that, and nobody else, calls. */
  async begin(attempt: Attempt, namespace: string): Promise<{ record: Stored<ConfigMap>; fresh: boolean }> {
    const { name, timeout, demand } = attempt;
    for (;;) {
      const known = await this.find(name);
      if (known) return { record: known, fresh: false };
      const place = await placeOf(attempt, namespace, this.#api);
      const made = await create<ConfigMap>(this.#api, CONFIG_MAP, {
        metadata: {
          name,
          namespace,
          labels: { [CALL]: name },
          annotations: factsNote({ timeout, memory: demand.memory }),
          ownerReferences: ownersOf(place),
        },
      });
      const record =
        made === 'exists' ? await read<ConfigMap>(this.#api, CONFIG_MAP, { metadata: { name, namespace } }) : made;
      if (!record) continue;
      this.#records.put(record);
      return { record, fresh: made !== 'exists' };
    }
  }

  async end(record: Stored<ConfigMap>, end: End): Promise<void> {
    const written = await change<ConfigMap>(this.#api, CONFIG_MAP, record, (there) =>
      notesOf(there).end ? undefined : noted(there, endNote(end)),
    );
    if (written) this.#records.put(written);
    else this.#records.drop(record);
  }

  async remove(record: Stored<ConfigMap>): Promise<void> {
    await remove(this.#api, CONFIG_MAP, record, { anyVersion: true });
    this.#records.drop(record);
  }

  #ring(): void {
    this.#news.resolve();
    this.#news = Promise.withResolvers();
  }
}
