export { Meters } from './prometheus.ts';
export { delegationMeters } from './prometheus-delegation.ts';
export { jobMeters } from './prometheus-jobs.ts';
export { createServer, type ServerOptions } from './server.ts';
export { singleProcess } from './status-view.ts';
