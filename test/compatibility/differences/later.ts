import { empty, json, noRoute, patched, refused, unsupported } from './answers.ts';
import { type Difference, onRoute } from './difference.ts';
import { NOTHING_STAYS_UP, WITHOUT_EXPOSE, WITHOUT_MOUNT, WITHOUT_VOLUME } from './services.ts';

const NO_LOGS = '{"service_name":"rec-exp","available":false,"message":"<text>","entries":[]}';

/** What comes later. Whoever brings it takes the entry away: the test fails until then. */
export const LATER: readonly Difference[] = [
  {
    id: 'mounts',
    kind: 'later',
    title: 'Mounted buckets',
    reason: 'A definition with `mount` is refused with 400, and its bucket is not made.',
    cases: [
      { matches: [102, 149, 151], ours: unsupported('mount') },
      { matches: [119, 148], ours: patched(WITHOUT_MOUNT) },
      { matches: [364], ours: patched({ 'rec-mnt': null }) },
      { matches: [439], ours: refused(404, /^there is no bucket "rec-mnt"$/) },
    ],
  },
  {
    id: 'exposed-services',
    kind: 'later',
    title: 'Exposed services',
    reason:
      'A definition with `expose.api_port` is refused with 400, and the routes that stop, start and restart what ' +
      'stays up are 404.',
    cases: [
      { matches: [101, 225, 250, 253, 506, 508], ours: unsupported('expose') },
      { matches: [226], ours: patched({ ...WITHOUT_EXPOSE, deployment: NOTHING_STAYS_UP }) },
      { matches: [227, 228, 241], ours: patched(NOTHING_STAYS_UP) },
      { matches: onRoute(/^POST \/system\/services\/[^/]+\/(stop|start|restart)$/), ours: noRoute },
      { matches: [509], ours: patched(WITHOUT_EXPOSE) },
      { matches: [510, 511, 512, 513], ours: json(NO_LOGS) },
    ],
  },
  {
    id: 'volumes',
    kind: 'later',
    title: 'Volumes',
    reason: 'A definition with `volume` is refused with 400, `/system/volumes` is 404, and `volume_enable` is `false`.',
    cases: [
      { matches: [36, 37, 45, 50], ours: patched({ config: { volume_enable: false } }) },
      { matches: onRoute(/^\w+ \/system\/volumes/), ours: noRoute },
      { matches: [343, 346, 353, 585], ours: unsupported('volume') },
      { matches: [344, 347], ours: patched(WITHOUT_VOLUME) },
      { matches: [351], ours: empty(204) },
    ],
  },
  {
    id: 'quotas',
    kind: 'later',
    title: 'Quotas',
    reason:
      'Nothing is limited yet: `/system/quotas` is 404, `minio_quota_enabled` is `false`, and `storage_quota` of a ' +
      'bucket is `unset`.',
    cases: [
      { matches: onRoute(/^\w+ \/system\/quotas/), ours: noRoute },
      { matches: [558], ours: patched({ config: { volume_enable: false, minio_quota_enabled: false } }) },
      { matches: [563, 564], ours: empty(201) },
    ],
  },
  {
    id: 'queues',
    kind: 'later',
    title: 'Queues of YuniKorn',
    reason: 'A definition with `total_cpu` or `total_memory` is refused with 400.',
    cases: [{ matches: [59], ours: unsupported('total_cpu') }],
  },
];
