export { EndpointTarget } from './client/endpoint-target.ts';
export { refusalByCode, refusedOffer } from './client/offer-refusals.ts';
export type { PeerConnection } from './connection/peer-connection.ts';
export { noManager } from './connection/problems.ts';
export {
  DIGEST_HEADER,
  memberKeyId,
  readContentDigest,
  recordRequest,
  type SignatureProblem,
  type SignedRequest,
  sign,
  verify,
  writeContentDigest,
} from './connection/signature.ts';
export type { PeerAnswer } from './connection/transport.ts';
export type {
  AttemptKey,
  ForwardedJob,
  Offer,
  OfferAnswer,
  Origin,
  OriginStore,
  PeerCredentials,
  Permit,
  RefusalCode,
  RemoteLogOptions,
  Report,
  Target,
  TargetAttempt,
} from './delegation-ports.ts';
export { ownAddress, type Resolved, resolveCluster } from './directory/addresses.ts';
export { createPeers, type PeerClients, type PeerConnections, peerClients } from './directory/peers.ts';
export { DelegationError, type DelegationErrorCode, FederationError, type FederationErrorCode } from './errors.ts';
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
} from './messages/federation.ts';
export { longestBody, parseTrace, readAttempt, readOffer, readOpened } from './messages/offer.ts';
export { type PassedAnswer, type PassedChange, readPassedAnswer, readPassedChange } from './messages/passed-change.ts';
export { writePermit } from './messages/permit.ts';
export { readReport } from './messages/report.ts';
export { writeRoom, writeStatus } from './messages/status.ts';
export {
  authorization,
  type Credential,
  type MemberKey,
  type Peer,
  type PeerAddress,
  PeerError,
  type PeerErrorCode,
  type Peers,
  type Probe,
  type Removed,
  type WorkerOrder,
  type WorkerState,
  withinDeadline,
} from './peer.ts';
