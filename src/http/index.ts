export { Meters } from './prometheus.ts';
export { jobMeters } from './prometheus-jobs.ts';
export { createServer } from './server.ts';
export { singleProcess } from './status-view.ts';
