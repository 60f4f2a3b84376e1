export { OwnDurations } from './own-durations.ts';
export { snapshotOfNodes } from './own-snapshot.ts';
export { Scoreboard } from './scoreboard.ts';
export { Sent, type Shipment } from './sent.ts';
