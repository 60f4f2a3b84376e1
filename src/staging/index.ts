export { AUTHORITIES, certificatesIn, trustAuthorities } from './pod/authorities.ts';
export { answerCalls } from './pod/calls/answer-calls.ts';
export { CALL_LAYOUT, CALL_MOUNTS } from './pod/calls/call-layout.ts';
export { type CallFrame, MAX_FRAME_BYTES, readFrame, sealCall, writeEnvelope } from './pod/calls/call-messages.ts';
export { LineUnstamper, MAX_STREAMED_BYTES } from './pod/calls/call-output.ts';
export { CALL_WRAPPER } from './pod/calls/call-wrapper.ts';
export {
  GIVEN_FILES,
  ORDER_FILES,
  POD_LAYOUT,
  SCRIPT_MOUNTS,
  SCRIPT_VIEW,
  WARM_LAYOUT,
  WARM_PATHS,
} from './pod/layout.ts';
export { type PodInput, type PodOrders, writeOrders, writeStores } from './pod/orders.ts';
export { type PodResult, readResult } from './pod/result.ts';
export { stageIn } from './pod/stage-in.ts';
export { stageOut } from './pod/stage-out.ts';
export { stageWait } from './pod/stage-wait.ts';
export { POD_WRAPPER, WARM_WRAPPER } from './pod/wrapper.ts';
export { FULL_STORE_PATIENCE, StagingError, storePatience } from './transfers/errors.ts';
export { createObjectProbe } from './transfers/object-probe.ts';
export type { Staging } from './transfers/staging.ts';
export { createStaging } from './transfers/worker-pool.ts';
