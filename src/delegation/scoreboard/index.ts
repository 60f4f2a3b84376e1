export { snapshotOfNodes } from './own-snapshot.ts';
export { Scoreboard } from './scoreboard.ts';
export type { Shipment } from './sent.ts';
