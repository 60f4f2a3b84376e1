import * as kind from '../kinds/single.ts';
import type { Settings } from './setting.ts';

export const jobs = {
  maxEventBytes: {
    name: 'OSCAR_MAX_EVENT_BYTES',
    kind: kind.sizeSetting,
    default: '8Mi',
    meaning: 'The largest event or input that an invocation may bring.',
  },
  jobTimeoutSeconds: {
    name: 'OSCAR_JOB_TIMEOUT',
    kind: kind.seconds,
    default: '86400',
    meaning: 'How long a script may run. A service may ask for less with the annotation `oscar-manager/job-timeout`.',
  },
  maxLogBytes: {
    name: 'OSCAR_MAX_LOG_BYTES',
    kind: kind.sizeSetting,
    default: '10Mi',
    meaning: 'How much of what a script prints is kept.',
  },
  eventsToken: {
    name: 'OSCAR_EVENTS_TOKEN',
    kind: kind.secret,
    unset: 'none: such events are refused',
    meaning: 'The bearer token with which a store reports new objects to `POST /system/events/storage`.',
  },
  jobTtlSeconds: {
    name: 'TTL_JOB',
    kind: kind.secondsOrNone,
    default: '2592000',
    meaning: 'How long a job is remembered after its end.',
  },
  jobListingLimit: {
    name: 'JOB_LISTING_LIMIT',
    kind: kind.count,
    default: '70',
    meaning: 'How many jobs, or objects of a bucket, one page of a listing holds.',
  },
  resourceManagerEnable: {
    name: 'RESOURCE_MANAGER_ENABLE',
    kind: kind.flag,
    default: 'true',
    meaning: 'Watch what is free in this cluster, so that jobs of federated services go elsewhere when it is full.',
  },
  resourceManagerIntervalSeconds: {
    name: 'RESOURCE_MANAGER_INTERVAL',
    kind: kind.seconds,
    default: '15',
    meaning: 'How often that is looked at.',
  },
  reschedulerEnable: {
    name: 'RESCHEDULER_ENABLE',
    kind: kind.flag,
    default: 'true',
    meaning: 'Offer jobs of federated services that wait too long to other members.',
  },
  reschedulerIntervalSeconds: {
    name: 'RESCHEDULER_INTERVAL',
    kind: kind.seconds,
    default: '10',
    meaning: 'How often waiting jobs are looked at.',
  },
  reschedulerThresholdSeconds: {
    name: 'RESCHEDULER_THRESHOLD',
    kind: kind.seconds,
    default: '10',
    meaning: 'How long a job may wait, unless its service says otherwise.',
  },
} as const satisfies Settings;
