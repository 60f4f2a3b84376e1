import type { Job, Stored } from '../api/kinds.ts';

/** What may be held: objects, and the length of their annotations, most of which is events. */
interface Room {
  readonly objects: number;
  readonly characters: number;
}

/**
 * Each job is changed some five times within minutes. More: memory. Fewer: of more than so many that are under way at
 * once, each is read from the server before it is changed.
 */
const ROOM: Room = { objects: 2_000, characters: 16_000_000 };

/** The objects that were seen last, whole: what is changed has to be sent as a whole. */
export class AtHand {
  readonly #objects = new Map<string, { readonly object: Stored<Job>; readonly characters: number }>();
  readonly #room: Room;
  #characters = 0;

  constructor(room: Room = ROOM) {
    this.#room = room;
  }

  get(uid: string): Stored<Job> | undefined {
    return this.#objects.get(uid)?.object;
  }

  put(object: Stored<Job>): void {
    const { uid, annotations = {} } = object.metadata;
    this.delete(uid);
    const characters = Object.values(annotations).reduce((sum, text) => sum + text.length, 0);
    this.#objects.set(uid, { object: withoutManagedFields(object), characters });
    this.#characters += characters;
    for (const oldest of this.#objects.keys()) {
      if (this.#objects.size <= this.#room.objects && this.#characters <= this.#room.characters) return;
      this.delete(oldest);
    }
  }

  delete(uid: string): void {
    this.#characters -= this.#objects.get(uid)?.characters ?? 0;
    this.#objects.delete(uid);
  }
}

/** Who wrote which field: as long as the rest, and kept by the server when it is left out. */
function withoutManagedFields(object: Stored<Job>): Stored<Job> {
  const { managedFields: _, ...metadata } = object.metadata as Stored<Job>['metadata'] & { managedFields?: unknown };
  return { ...object, metadata };
}
