export { realClock } from './clock.ts';
export { Delegator } from './delegator.ts';
export { type LogDeps, readLogAnywhere } from './logs.ts';
export type { DelegationMeters } from './meters.ts';
export type { OriginDeps } from './origin.ts';
export { type Whereabouts, WorkingFederations } from './round/members.ts';
