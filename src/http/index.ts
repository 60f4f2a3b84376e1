export { Meters } from './prometheus.ts';
export { meterJobs } from './prometheus-jobs.ts';
export { createServer } from './server.ts';
export { singleProcess } from './status-view.ts';
