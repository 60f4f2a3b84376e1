export { type BoardChange, InFlightJobs, type Scoreboard, type Shipment } from './scoreboard.ts';
