export {
  type ClusterChange,
  type InFlightJob,
  InFlightJobs,
  type MonitoredCluster,
  type Scoreboard,
} from './scoreboard.ts';
