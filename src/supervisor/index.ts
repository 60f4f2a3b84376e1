export { createObjectProbe } from './object-probe.ts';
export type { FetchOrder, Staging, UploadOrder, UploadPlan } from './staging.ts';
export { createStaging } from './worker-pool.ts';
