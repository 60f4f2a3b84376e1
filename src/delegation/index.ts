export { commit } from './commit/index.ts';
export { DelegationError, type DelegationErrorCode } from './errors.ts';
export {
  type DelegationMeters,
  Delegator,
  OriginDesk,
  readLogAnywhere,
  realClock,
  WorkingFederations,
} from './origin/index.ts';
export { EndpointTarget } from './peer/endpoint-target.ts';
export { selfOrigin, selfTarget } from './peer/self.ts';
export { type Ways, waysOver } from './peer/ways.ts';
export {
  longestBody,
  readAttempt,
  readOffer,
  readOpened,
  readReport,
  traceIn,
  writePermit,
  writeStatus,
} from './peer/wire/index.ts';
export { claimedWorker, provenOwner } from './proof.ts';
export { OwnDurations, Scoreboard, snapshotOfNodes } from './scoreboard/index.ts';
export type { DelegationServer, ProvenCoordinator, ProvenOwner, ProvenWorker } from './server.ts';
export { TakenJobs } from './target/elsewhere-target.ts';
export { type Entered, enterJob } from './target/enter.ts';
export type { Coordinator, WorkerRole } from './target/hosting.ts';
export { upstreamOrigins } from './target/upstream-origins.ts';
