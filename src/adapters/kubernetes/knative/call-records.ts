import type { Attempt } from '../../../model/job/index.ts';
import { StoreError } from '../../../ports/index.ts';
import type { Api } from '../client/api.ts';
import { toStoreError } from '../client/api-error.ts';
import { Informer, type InformerOptions } from '../client/informer.ts';
import { SECRET, type SecretObject, type Stored } from '../client/kinds.ts';
import { WatchCache } from '../client/watch-cache.ts';
import { createObject, readObject, removeObject, updateObject } from '../client/writes.ts';
import {
  endNote,
  factsNote,
  findAttemptPlace,
  ownerReferences,
  type PodOutcome,
  readNotes,
  withAnnotations,
} from '../runner/index.ts';

/** On the record of a call: the name of its attempt. */
const CALL = 'oscar.grycap/call';

/** On the record of a call: the start that has made it, which whoever lost the answer to that finds again. */
const BEGUN_BY = 'oscar.grycap/call-begun-by';

/**
 * What is written down of calls: that one was begun, before it is, and how it ended. A Secret each, which belongs to the
 * job. It has nothing to hide, but the name that an attempt in a pod would have: whatever the settings of two managers are,
 * only one of them makes it. Every manager of the cluster has all of them in mind.
 */
export class CallRecords {
  readonly #api: Api;
  readonly #records: WatchCache<SecretObject>;
  readonly #informer: Informer<SecretObject>;
  readonly #waiting = new Map<string, PromiseWithResolvers<void>>();

  constructor(api: Api, watch: Pick<InformerOptions, 'watchMs' | 'silenceMs'>, report: (problem: unknown) => void) {
    this.#api = api;
    this.#records = new WatchCache<SecretObject>(
      ({ metadata }) => ({ metadata }),
      (name) => this.#wake(name),
      (problem) => report(toStoreError(problem, 'watch the records of calls')),
    );
    this.#informer = new Informer(api, SECRET, this.#records, { labelSelector: CALL, ...watch });
  }

  /** Resolves when all are known. */
  async open(): Promise<void> {
    await this.#informer.start();
  }

  async close(): Promise<void> {
    await this.#informer.stop();
    for (const name of this.#waiting.keys()) this.#wake(name);
  }

  names(): string[] {
    return this.#records.names();
  }

  /** As far as is known here. */
  get(name: string): Stored<SecretObject> | undefined {
    return this.#records.get(name);
  }

  /** The server is asked once: another manager may have made it just now. */
  async find(name: string): Promise<Stored<SecretObject> | undefined> {
    const known = this.#records.get(name);
    if (known) return known;
    const { items } = await this.#api
      .page<SecretObject>(SECRET, {}, { labelSelector: `${CALL}=${name}`, limit: 1 })
      .catch((error: unknown) => {
        throw toStoreError(error, `look for the call ${name}`);
      });
    for (const object of items ?? []) this.#records.put(object);
    return this.#records.get(name);
  }

  /** The same, as the server has it now. */
  async refresh(name: string): Promise<void> {
    const known = this.#records.get(name);
    const there = known && (await readObject<SecretObject>(this.#api, SECRET, known));
    if (there?.metadata.uid === known?.metadata.uid && there) this.#records.put(there);
  }

  outcome(name: string): PodOutcome | undefined {
    const record = this.#records.get(name);
    return record && readNotes(record).end;
  }

  /** Resolves when this one changes. Ask before you look. */
  nextChange(name: string): Promise<void> {
    const waiting = this.#waiting.get(name) ?? Promise.withResolvers<void>();
    this.#waiting.set(name, waiting);
    return waiting.promise;
  }

  /**
   * Says if it was made by this start: whoever did that, and nobody else, calls. Throws `conflict` if the attempt is run by
   * a pod of its own.
   */
  async begin(
    attempt: Attempt,
    namespace: string,
    start: string,
  ): Promise<{ record: Stored<SecretObject>; fresh: boolean }> {
    const { name, timeout, demand } = attempt;
    for (;;) {
      const known = this.#records.get(name);
      if (known) return { record: known, fresh: isBegunBy(known, start) };
      const place = await findAttemptPlace(attempt, namespace, this.#api);
      const made = await createObject<SecretObject>(this.#api, SECRET, {
        metadata: {
          name,
          namespace,
          labels: { [CALL]: name },
          annotations: { ...factsNote({ timeout, memory: demand.memory }), [BEGUN_BY]: start },
          ownerReferences: ownerReferences(place),
        },
        type: 'Opaque',
      });
      const record =
        made === 'exists' ? await readObject<SecretObject>(this.#api, SECRET, { metadata: { name, namespace } }) : made;
      if (!record) continue;
      if (record.metadata.labels?.[CALL] !== name)
        throw new StoreError('conflict', `attempt ${name} cannot be called: there is a Secret of that name already`);
      this.#records.put(record);
      return { record, fresh: isBegunBy(record, start) };
    }
  }

  async end(record: Stored<SecretObject>, end: PodOutcome): Promise<void> {
    const written = await updateObject<SecretObject>(this.#api, SECRET, record, (there) =>
      readNotes(there).end ? undefined : withAnnotations(there, endNote(end)),
    );
    if (written) this.#records.put(written);
    else this.#records.drop(record);
  }

  async remove(record: Stored<SecretObject>): Promise<void> {
    await removeObject(this.#api, SECRET, record, { anyVersion: true });
    this.#records.drop(record);
  }

  #wake(name: string): void {
    const waiting = this.#waiting.get(name);
    this.#waiting.delete(name);
    waiting?.resolve();
  }
}

/** Its answer may have been lost, and somebody may have given it up since. */
const isBegunBy = (record: Stored<SecretObject>, start: string) =>
  record.metadata.annotations?.[BEGUN_BY] === start && !readNotes(record).end;
