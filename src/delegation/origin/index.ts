export { realClock } from './clock.ts';
export { Delegator } from './delegator.ts';
export { readLogAnywhere } from './logs.ts';
export type { DelegationMeters } from './meters.ts';
export { OriginDesk } from './origin-desk.ts';
export { WorkingFederations } from './round/members.ts';
