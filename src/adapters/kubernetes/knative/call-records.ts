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

/** Label on the record of a call: the name of its attempt. */
const CALL = 'oscar.grycap/call';

/** Annotation on the record of a call: the id of the start that created it, to recognise it after a lost answer. */
const BEGUN_BY = 'oscar.grycap/call-begun-by';

/**
 * The records of calls: written before a call begins, and again with its outcome. Each is a Secret owned by the Job. It is a
 * Secret only because an attempt in a pod would have a Secret of the same name: whatever the settings of two managers are,
 * only one of them can create it. Every manager of the cluster caches all records.
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

  /** From the cache. */
  get(name: string): Stored<SecretObject> | undefined {
    return this.#records.get(name);
  }

  /** On a miss the server is asked: another manager may have just created it. */
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

  /** Reads the record from the server. */
  async refresh(name: string): Promise<void> {
    const known = this.#records.get(name);
    const there = known && (await readObject<SecretObject>(this.#api, SECRET, known));
    if (there?.metadata.uid === known?.metadata.uid && there) this.#records.put(there);
  }

  outcome(name: string): PodOutcome | undefined {
    const record = this.#records.get(name);
    return record && readNotes(record).end;
  }

  /** Resolves at the next change of the record. Call it before reading the current state. */
  nextChange(name: string): Promise<void> {
    const waiting = this.#waiting.get(name) ?? Promise.withResolvers<void>();
    this.#waiting.set(name, waiting);
    return waiting.promise;
  }

  /**
   * Creates the record. `fresh`: this start created it, so this manager, and no other, sends the call. Throws `conflict` if
   * the attempt has a pod of its own.
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

/** Whether this start created the record (its answer may have been lost) and no manager has ended the call since. */
const isBegunBy = (record: Stored<SecretObject>, start: string) =>
  record.metadata.annotations?.[BEGUN_BY] === start && !readNotes(record).end;
