import { describeParts } from './pod-system.ts';

/** Of each kind those that see most in little time; the others are in `pod-system.long.ts`. */
describeParts({
  'jobs and federation': [
    {
      file: 'jobs/flows',
      except: {
        '/system/info says that images are not used': 'here they are',
        'what has ended is forgotten after TTL_JOB': 'it starts a second cluster beside the first',
        'of forty at once each is read once': 'the node takes minutes for forty pods',
      },
    },
    {
      file: 'jobs/ends',
      except: {
        'goes with its service, with what waits behind it': 'it needs a cluster of four cores',
        'is cancelled at once, while the one before it goes on': 'it needs a cluster of four cores',
      },
    },
    { file: 'federation/changes', id: 'oscar-cluster' },
    { file: 'federation/pass-on', id: 'oscar-cluster-a' },
  ],
  delegation: [
    { file: 'delegation/outputs', id: 'oscar-cluster' },
    {
      file: 'delegation/what-scripts-see',
      id: 'oscar-cluster-a',
      except: { 'has the variables and secrets of a run here': 'a process of the origin has others than a pod' },
    },
  ],
});
