export { delegationMeters, jobMeters, Meters } from './prometheus.ts';
export { createServer, type ServerOptions } from './server.ts';
export { singleProcess } from './status-view.ts';
