import { describeParts, type Part } from './pod-system.ts';

/** Those of the whole-system tests that are not in `pod-system.pods.ts`. */

const OTHER_PIDS = 'what runs in a pod has another number there';

const JOBS: readonly Part[] = [
  { file: 'jobs/invoke' },
  { file: 'jobs/forged-events' },
  { file: 'jobs/users' },
  {
    file: 'jobs/nasty-scripts',
    except: {
      'and ends well with children alive has ended well': OTHER_PIDS,
      'and sends a child away into a session of its own': OTHER_PIDS,
      'and ignores TERM is made to go': OTHER_PIDS,
      'and prints': 'the log is that of the kubelet, and has its limits',
      'and fills its part of the disk is ended': 'pods have another setting for it: attempts.pods.ts',
      'by ending whatever started it is lost': 'in a pod it cannot',
      'with names that look like a way out stay below the output': 'MinIO takes no such names',
    },
  },
];

const FEDERATION: readonly Part[] = [
  { file: 'federation/adoption', id: 'oscar-cluster-a' },
  { file: 'federation/refusals', id: 'oscar-cluster' },
  { file: 'federation/members-away', id: 'oscar-cluster' },
  { file: 'federation/quickstart', id: 'oscar-cluster' },
  { file: 'federation/worker-definition', id: 'oscar-cluster-a' },
  { file: 'federation/forged-requests', id: 'oscar-cluster-a' },
  { file: 'federation/go-members' },
];

const DELEGATION: readonly Part[] = [
  { file: 'delegation/following', id: 'oscar-cluster-a' },
  { file: 'delegation/entering', id: 'oscar-cluster-a' },
  { file: 'delegation/credentials', id: 'oscar-cluster-a' },
  {
    file: 'delegation/members',
    id: 'oscar-cluster-b',
    except: {
      'when a member cannot read the input': 'here all clusters may dial the stores of all',
      'what was delegated is not passed on': 'it needs a cluster of more than two cores',
    },
  },
  { file: 'delegation/policies', id: 'oscar-cluster-c' },
  { file: 'delegation/from-go', id: 'oscar-cluster-a' },
  { file: 'delegation/from-known-go' },
  { file: 'delegation/to-go' },
];

// `jobs/providers` and `federation/access` start several clusters that would be on Kubernetes. `jobs/what-scripts-see` looks for
// the files of a data directory, and for users of a machine: what it is about is in attempts.pods.ts for pods.
describeParts({ 'jobs and federation': [...JOBS, ...FEDERATION], delegation: DELEGATION });
