import type { Service } from '../../../model/service/index.ts';
import type { KubeObject, Stored } from '../client/kinds.ts';

/** Keeps what else stands beside the definition of a service. */
export interface Companions {
  keep(service: Service, definition: Stored<KubeObject>): Promise<void>;
  /** Throws `refused` if it could not follow this change. */
  check(next: Service, before: Service, definition: Stored<KubeObject>): Promise<void>;
  remove(definition: Stored<KubeObject>): Promise<void>;
  /** Is it as it should be, as far as is known without asking? */
  isKept(service: Service, definition: Stored<KubeObject>): boolean;
}

/** All of them as one; undefined when there are none. */
export function allCompanions(all: readonly Companions[]): Companions | undefined {
  if (all.length === 0) return undefined;
  return {
    async keep(service, definition) {
      for (const each of all) await each.keep(service, definition);
    },
    async check(next, before, definition) {
      for (const each of all) await each.check(next, before, definition);
    },
    async remove(definition) {
      for (const each of all) await each.remove(definition);
    },
    isKept: (service, definition) => all.every((each) => each.isKept(service, definition)),
  };
}
