export { type ClusterChange, type InFlightJob, InFlightJobs, type Scoreboard } from './scoreboard.ts';
