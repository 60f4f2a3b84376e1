export { snapshotOfNodes } from './own-snapshot.ts';
export { type Board, Scoreboard } from './scoreboard.ts';
export type { Shipment } from './sent.ts';
