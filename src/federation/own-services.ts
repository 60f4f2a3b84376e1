import { type Catalog, createService, oldVersion, removeRecord, replaceDefinition } from '../catalog/index.ts';
import type { OwnServices } from './coordinator/coordination.ts';

/** Enough for any burst of writers to one service. */
const ATTEMPTS = 8;

/** The coordinator's own service, by the verbs of the catalog. */
export function ownServices(catalog: Catalog): OwnServices {
  return {
    create: (principal, body, federation) => createService(principal, body, catalog, { federation }),

    async update(principal, given, expected, federation) {
      const { name } = given.definition;
      const current = await catalog.services.get(name);
      const replaced =
        current?.version === expected
          ? await replaceDefinition(principal, given, current, { federation }, catalog)
          : undefined;
      if (!replaced) throw oldVersion(name);
      return replaced;
    },

    async remove({ uid, definition: { name } }) {
      for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
        const record = await catalog.services.get(name);
        if (record?.service.uid !== uid || (await removeRecord(record, catalog))) return;
      }
      throw oldVersion(name);
    },
  };
}
