export { createObjectProbe } from './object-probe.ts';
export { ORDER_FILES, POD_LAYOUT, SCRIPT_MOUNTS, SCRIPT_VIEW } from './pod/layout.ts';
export { type PodInput, type PodOrders, writeOrders, writeStores } from './pod/orders.ts';
export { type PodResult, readResult } from './pod/result.ts';
export { stageIn } from './pod/stage-in.ts';
export { stageOut } from './pod/stage-out.ts';
export { WRAPPER } from './pod/wrapper.ts';
export type { FetchOrder, Staging, UploadOrder, UploadPlan } from './staging.ts';
export { createStaging } from './worker-pool.ts';
