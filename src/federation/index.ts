export type { Audited } from './audit.ts';
export { type Changed, changeMembers } from './change.ts';
export {
  type AuthenticatedWorker,
  authenticateWorker,
  knowsFederation,
} from './coordinator/authenticate-worker.ts';
export type { Coordination } from './coordinator/coordination.ts';
export { addressOf } from './coordinator/member/member-address.ts';
export { noteDeparture } from './departure.ts';
export { FederationError, type FederationErrorCode } from './errors.ts';
export { Ledgers } from './ledger-store.ts';
export { type MemberEvent, MemberWatch } from './member-watch.ts';
export { nameOf as memberName, readIntention } from './members.ts';
export { membersView } from './members-view.ts';
export { ownServices } from './own-services.ts';
export { resolveCluster } from './peer/addresses.ts';
export { withAsking } from './peer/asked-before.ts';
export { authorization } from './peer/authorization.ts';
export type { Line } from './peer/line.ts';
export { ownAddress } from './peer/own-address.ts';
export { readPassedChange } from './peer/passed-change.ts';
export {
  type Credential,
  type MemberKey,
  type PeerAddress,
  PeerError,
  type PeerErrorCode,
  type WorkerOrder,
} from './peer/peer.ts';
export { createPeers, type Lines } from './peer/peers.ts';
export { noManager, problemOf } from './peer/problems.ts';
export { refusals } from './peer/refusals.ts';
export { type SignedRequest, sign } from './peer/signature.ts';
export type { PeerAnswer } from './peer/transport.ts';
export {
  ANOTHER_KEY,
  FEDERATION_HEADER,
  MEMBER_HEADER,
  readBroughtKey,
  readChange,
  readMember,
  readOrder,
  WORKER_HEADER,
  writeState,
} from './peer/wire.ts';
export { ABANDONED, Reconciler } from './reconcile.ts';
export { recoverFederations } from './recover.ts';
export { createFederated, type Federations, removeFederated, updateFederated } from './service-verbs.ts';
export { expand } from './topology.ts';
export { adoptWorker } from './worker/adopt.ts';
export { authenticateMember } from './worker/authenticate-member.ts';
export { changeWorker } from './worker/change.ts';
export { federationGuard } from './worker/guard.ts';
export { isHeld } from './worker/held.ts';
export { inspectWorker } from './worker/inspect.ts';
export { instanceId, newInstanceId } from './worker/instance.ts';
export { makeWorker } from './worker/make.ts';
export { passedAnswer, passOn } from './worker/pass-on.ts';
export { probeWorker } from './worker/probe.ts';
export { recoverWorkers } from './worker/recover.ts';
export { rekeyWorker } from './worker/rekey.ts';
export { releaseWorker } from './worker/release.ts';
export { selfPeer } from './worker/self-peer.ts';
export { isWorker, type WorkerRecord } from './worker/worker-role.ts';
export type { Workers } from './worker/workers.ts';
