import { type Admin, chooseVo, type User } from '../../identity/index.ts';
import { CLUSTER_ADMIN, type Definition, ownedBy, readDefinition } from '../../model/service/index.ts';
import {
  admit,
  createService,
  oldVersion,
  removeRecord,
  replaceDefinition,
  type Services,
  serviceNameTaken,
} from '../../services/index.ts';
import type { OwnServices } from './coordination.ts';

/** The definition as it is stored, with owner and VO. */
function toOwnedDefinition(principal: Admin | User, definition: Definition, { allowedGroups }: Services): Definition {
  if (principal.kind === 'admin') return ownedBy(definition, CLUSTER_ADMIN);
  const { vo } = chooseVo({ requested: definition.vo, userGroups: principal.groups, allowedGroups });
  return ownedBy({ ...definition, vo }, principal.uid);
}

/** Enough for any burst of writers to one service. More failures than this mean a fault, not contention. */
const ATTEMPTS = 8;

/** Implements the operations on the coordinator's own service with `src/services`. */
export function ownServices(catalog: Services): OwnServices {
  return {
    async plan(principal, body, federation) {
      const { definition, secrets } = readDefinition(body);
      const planned = toOwnedDefinition(principal, definition, catalog);
      await admit(planned, secrets, undefined, catalog, { federation });
      if (!(await catalog.services.get(planned.name))) return planned;
      throw serviceNameTaken(planned.name);
    },

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
