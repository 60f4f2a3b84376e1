import type { FederatedServices } from '../../services/index.ts';
import { changeFederation, planChange } from '../coordinator/change-federation.ts';
import type { Caller } from '../coordinator/coordination.ts';
import { createFederation, planFederation } from '../coordinator/create-federation.ts';
import { memberId } from '../coordinator/ledger.ts';
import { removeFederation } from '../coordinator/remove-federation.ts';
import { type Federations, notifyDeparture } from './forward-change.ts';
import { removeOwnWorker, takeOverWorker } from './release-worker.ts';
import { isWorker } from './worker-role.ts';

/** What service requests need of both roles: the operations of `src/services` for coordinators and workers. */
export function federatedServices(federations: Federations): FederatedServices<Caller> {
  const { coordination, workers } = federations;
  return {
    planCreate: (caller, body) => planFederation(caller, body, coordination),
    planChange: (caller, body, record) => planChange(caller, body, record, coordination),
    create: (caller, body) => createFederation(caller, body, coordination),
    change: (caller, body, ifMatch) => changeFederation(caller, body, ifMatch, coordination),
    async remove(caller, record, cascade) {
      const left = await removeFederation(record, { cascade, caller }, coordination);
      // Other members are ended with their keys, however long that takes; at a Go manager the credential of the caller expires.
      return left
        .filter(({ kind }) => kind === 'upstream')
        .map((member) => ({ member: memberId(member), reason: member.reason ?? 'its manager is still deleting it' }));
    },
    async takeOverWorker({ principal }, record, ifMatch) {
      if (isWorker(record)) await takeOverWorker(principal, record, ifMatch, workers);
    },
    removeWorker: ({ principal }, name, namespace) =>
      removeOwnWorker(principal, name, namespace, workers, (worker) => notifyDeparture(worker, federations)),
  };
}
