import type { Patch } from './patch.ts';

/** What is missing in services whose blocks our manager refuses: see `carry-on.ts`. */
export const WITHOUT_TOTALS: Patch = { total_memory: '', total_cpu: '' };

export const WITHOUT_MOUNT: Patch = { mount: { storage_provider: '', path: '' } };

export const WITHOUT_VOLUME: Patch = { volume: null, volume_status: { enabled: false, name: null, phase: null } };

export const NOTHING_STAYS_UP: Patch = {
  state: 'unavailable',
  reason: '<text>',
  last_transition_time: null,
  active_instances: 0,
  resource_kind: 'unavailable',
};

export const WITHOUT_EXPOSE: Patch = {
  expose: {
    min_scale: 0,
    max_scale: 0,
    api_port: null,
    cpu_threshold: 0,
    rewrite_target: false,
    nodePort: null,
    set_auth: false,
  },
};

/** What the Go manager loses in an update that does not repeat it. */
export const STILL_OF_ALICE: Patch = { vo: '/oscar', labels: { owner_name: 'Alice', vo: 'oscar' } };

const HIDDEN = 'hidden';

export const HIDDEN_KEYS: Patch = {
  storage_providers: {
    s3: { s1: { access_key: HIDDEN, secret_key: HIDDEN } },
    webdav: { w1: { password: HIDDEN } },
  },
};
