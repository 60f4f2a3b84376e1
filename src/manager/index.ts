export { createLog } from './log.ts';
export { startManager } from './manager.ts';
