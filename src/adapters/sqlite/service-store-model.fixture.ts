import type { Service } from '../../model/service/index.ts';
import { type IndexTerm, indexTermsFor, RESERVATION_LIFETIME } from '../../ports/index.ts';

export type Outcome = 'done' | 'taken' | 'conflict' | 'absent';

interface StoredService {
  readonly service: Service;
  /** A number that is new for each write; a caller passes the one that it read. */
  readonly state: number;
}

/** A simple model of a service store, with which the real one is compared. */
export class ModelStore {
  readonly #reservations = new Map<string, { uid: string; madeAt: number }>();
  readonly #services = new Map<string, StoredService>();
  #states = 0;

  reserve(name: string, uid: string, now: number): Outcome {
    const reservation = this.#reservations.get(name);
    if (this.#services.has(name) || (reservation && now - reservation.madeAt < RESERVATION_LIFETIME)) return 'taken';
    this.#reservations.set(name, { uid, madeAt: now });
    return 'done';
  }

  release(name: string, uid: string): Outcome {
    if (this.#reservations.get(name)?.uid === uid) this.#reservations.delete(name);
    return 'done';
  }

  create(service: Service): Outcome {
    const { name } = service.definition;
    if (this.#reservations.get(name)?.uid !== service.uid) return 'conflict';
    this.#reservations.delete(name);
    this.#put(service);
    return 'done';
  }

  replace(service: Service, expected: number | undefined): Outcome {
    const held = this.#services.get(service.definition.name);
    if (!held) return 'absent';
    if (held.state !== expected || held.service.uid !== service.uid) return 'conflict';
    this.#put(service);
    return 'done';
  }

  remove(name: string, expected: number | undefined): Outcome {
    const held = this.#services.get(name);
    if (!held) return 'absent';
    if (held.state !== expected) return 'conflict';
    this.#services.delete(name);
    return 'done';
  }

  get(name: string): StoredService | undefined {
    return this.#services.get(name);
  }

  list(anyOf?: readonly IndexTerm[]): Service[] {
    const all = [...this.#services.values()].map(({ service }) => service);
    const wanted = anyOf ? all.filter((service) => indexTermsFor(service).some((term) => anyOf.includes(term))) : all;
    return wanted.toSorted((a, b) => (sortKey(a) < sortKey(b) ? -1 : 1));
  }

  #put(service: Service): void {
    this.#states += 1;
    this.#services.set(service.definition.name, { service, state: this.#states });
  }
}

const sortKey = ({ namespace, definition }: Service) => `${namespace}/${definition.name}`;
