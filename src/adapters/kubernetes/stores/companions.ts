import type { Service } from '../../../model/service/index.ts';
import type { KubeObject, Stored } from '../client/kinds.ts';

/** The companions of a service: objects that exist in addition to its definition, such as a queue or a Knative Service. */
export interface Companions {
  ensure(service: Service, definition: Stored<KubeObject>): Promise<void>;
  /** Throws `refused` if the companion cannot follow this change. */
  checkUpdate(next: Service, before: Service, definition: Stored<KubeObject>): Promise<void>;
  remove(definition: Stored<KubeObject>): Promise<void>;
  /** Whether the companion matches the service, as far as the caches know. */
  isCurrent(service: Service, definition: Stored<KubeObject>): boolean;
}

/** Combines several into one; undefined when there are none. */
export function combineCompanions(all: readonly Companions[]): Companions | undefined {
  if (all.length === 0) return undefined;
  return {
    async ensure(service, definition) {
      for (const each of all) await each.ensure(service, definition);
    },
    async checkUpdate(next, before, definition) {
      for (const each of all) await each.checkUpdate(next, before, definition);
    },
    async remove(definition) {
      for (const each of all) await each.remove(definition);
    },
    isCurrent: (service, definition) => all.every((each) => each.isCurrent(service, definition)),
  };
}
