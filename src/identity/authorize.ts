import type { Service } from '../model/service/index.ts';
import type { Principal } from './principal.ts';

export type Action =
  /** Read the definition, alone or in a list; the deployment and its logs. */
  | 'read'
  /** See the service token in the definition. */
  | 'see-token'
  | 'invoke'
  /**
   * Pass through the forward authentication to what the service exposes (docs/go-manager.md#forward-authentication).
   */
  | 'reach'
  | 'read-jobs'
  | 'delete-jobs'
  | 'update'
  | 'delete'
  /** Start, stop and restart an exposed service. */
  | 'lifecycle'
  | 'read-federation'
  /** Add a new member on a cluster that the service already knows. */
  | 'add-member'
  | 'change-federation';

/** `own`: only the caller's own jobs. `hidden`: answer as if the service did not exist. */
export type Decision = 'yes' | 'own' | 'forbidden' | 'hidden';

/** The fields of a service that decide who may do what. */
export type Guarded = Pick<Service, 'owner'> & {
  readonly definition: Pick<Service['definition'], 'name' | 'visibility' | 'allowed_users'>;
};

/** The role of a principal for one service. */
type Relation = 'admin' | 'owner' | 'guest' | 'privateToken' | 'sharedToken' | 'stranger';

const [yes, own, no, hidden] = ['yes', 'own', 'forbidden', 'hidden'] as const;

// The table of docs/security.md#who-may-do-what. Basic credentials never invoke. A guest deletes only its own jobs (S20).
// Only the owner changes the federation (F28). A service token, which every script can read, may add members to a
// private service and change nothing else.
// biome-ignore format: a table
const RULES: Record<Action, Record<Relation, Decision>> = {
  'read':              { admin: yes, owner: yes, guest: yes, privateToken: no,  sharedToken: no,  stranger: hidden },
  'see-token':         { admin: yes, owner: yes, guest: yes, privateToken: no,  sharedToken: no,  stranger: hidden },
  'invoke':            { admin: no,  owner: yes, guest: yes, privateToken: yes, sharedToken: yes, stranger: hidden },
  'reach':             { admin: yes, owner: yes, guest: yes, privateToken: yes, sharedToken: yes, stranger: hidden },
  'read-jobs':         { admin: yes, owner: own, guest: own, privateToken: no,  sharedToken: no,  stranger: hidden },
  'delete-jobs':       { admin: yes, owner: yes, guest: own, privateToken: no,  sharedToken: no,  stranger: hidden },
  'update':            { admin: yes, owner: yes, guest: no,  privateToken: no,  sharedToken: no,  stranger: hidden },
  'delete':            { admin: yes, owner: yes, guest: no,  privateToken: no,  sharedToken: no,  stranger: hidden },
  'lifecycle':         { admin: yes, owner: yes, guest: no,  privateToken: no,  sharedToken: no,  stranger: hidden },
  'read-federation':   { admin: yes, owner: yes, guest: yes, privateToken: yes, sharedToken: yes, stranger: hidden },
  'add-member':        { admin: yes, owner: yes, guest: no,  privateToken: yes, sharedToken: no,  stranger: hidden },
  'change-federation': { admin: yes, owner: yes, guest: no,  privateToken: no,  sharedToken: no,  stranger: hidden },
};

/**
 * Whether a principal may perform an action on a service.
 *
 * @example
 * may(bob, 'update', publicServiceOfAlice);  // 'forbidden': bob sees it but does not own it
 * may(bob, 'update', privateServiceOfAlice); // 'hidden': bob must not learn that it exists
 */
export function may(principal: Principal, action: Action, service: Guarded): Decision {
  return RULES[action][relation(principal, service)];
}

function relation(principal: Principal, { owner, definition }: Guarded): Relation {
  if (principal.kind === 'admin') return 'admin';

  // Any other visibility is private: a typo must not open a service (S11).
  const shared = definition.visibility === 'public' || definition.visibility === 'restricted';
  if (principal.kind === 'service-token') {
    if (principal.service !== definition.name) return 'stranger';
    return shared ? 'sharedToken' : 'privateToken';
  }

  // Compare the whole uid: with a shortened one, `…@egi.eu` owners were locked out of their own services (R10).
  if (principal.uid === owner) return 'owner';
  if (definition.visibility === 'public') return 'guest';
  const listed = definition.visibility === 'restricted' && definition.allowed_users.includes(principal.uid);
  return listed ? 'guest' : 'stranger';
}
