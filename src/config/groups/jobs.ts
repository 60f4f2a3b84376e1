import * as kind from '../kinds/single.ts';
import type { Settings } from './setting.ts';

export const jobs = {
  maxEventBytes: {
    name: 'OSCAR_MAX_EVENT_BYTES',
    kind: kind.sizeSetting,
    default: '8Mi',
    meaning: 'The maximum size of the event or input of an invocation.',
  },
  jobTimeoutSeconds: {
    name: 'OSCAR_JOB_TIMEOUT',
    kind: kind.seconds,
    default: '86400',
    meaning:
      'How long a script may run. A service may set a shorter time with the annotation `oscar-manager/job-timeout`.',
  },
  maxLogBytes: {
    name: 'OSCAR_MAX_LOG_BYTES',
    kind: kind.sizeSetting,
    default: '10Mi',
    meaning: 'The maximum size of the stored log of a job.',
  },
  eventsToken: {
    name: 'OSCAR_EVENTS_TOKEN',
    kind: kind.secret,
    unset: 'none: such events are rejected',
    meaning: 'The bearer token with which a store reports new objects to `POST /system/events/storage`.',
  },
  jobTtlSeconds: {
    name: 'TTL_JOB',
    kind: kind.secondsOrNone,
    default: '2592000',
    meaning: 'How long the record of a job is kept after the job has ended.',
  },
  jobListingLimit: {
    name: 'JOB_LISTING_LIMIT',
    kind: kind.count,
    default: '70',
    meaning: 'How many jobs, or objects of a bucket, one page of a list contains.',
  },
  resourceManagerEnable: {
    name: 'RESOURCE_MANAGER_ENABLE',
    kind: kind.flag,
    default: 'true',
    meaning:
      'Monitor the free resources of this cluster, so that jobs of federated services are delegated when it is full.',
  },
  resourceManagerIntervalSeconds: {
    name: 'RESOURCE_MANAGER_INTERVAL',
    kind: kind.seconds,
    default: '15',
    meaning: 'How often the free resources are measured.',
  },
  reschedulerEnable: {
    name: 'RESCHEDULER_ENABLE',
    kind: kind.flag,
    default: 'true',
    meaning: 'Offer jobs of federated services that have waited too long to other members.',
  },
  reschedulerIntervalSeconds: {
    name: 'RESCHEDULER_INTERVAL',
    kind: kind.seconds,
    default: '10',
    meaning: 'How often waiting jobs are checked.',
  },
  reschedulerThresholdSeconds: {
    name: 'RESCHEDULER_THRESHOLD',
    kind: kind.seconds,
    default: '10',
    meaning: 'How long a job may wait, unless its service sets another time.',
  },
} as const satisfies Settings;
