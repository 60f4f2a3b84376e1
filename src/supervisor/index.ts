export { createObjectProbe } from './object-probe.ts';
export { AUTHORITIES, certificatesIn, trustAuthorities } from './pod/authorities.ts';
export { answerCalls } from './pod/calls/answer-calls.ts';
export { CALL_LAYOUT, CALL_MOUNTS } from './pod/calls/call-layout.ts';
export { CALL_WRAPPER } from './pod/calls/call-wrapper.ts';
export { writeEnvelope } from './pod/calls/envelope.ts';
export { type CallFrame, LARGEST_FRAME, readFrame } from './pod/calls/frames.ts';
export { MOST_TOLD } from './pod/calls/printed.ts';
export { sealCall } from './pod/calls/sealed-call.ts';
export { Unstamping } from './pod/calls/stamped-log.ts';
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
export { WARM_WRAPPER, WRAPPER } from './pod/wrapper.ts';
export type { FetchOrder, Staging, UploadOrder, UploadPlan } from './staging.ts';
export { createStaging } from './worker-pool.ts';
