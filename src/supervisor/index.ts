export type { FetchOrder, PlannedUpload, Staging, UploadOrder, UploadPlan } from './staging.ts';
export { createStaging } from './worker-pool.ts';
