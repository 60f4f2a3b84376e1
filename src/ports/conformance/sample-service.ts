import { Secret } from '../../lib/secret.ts';
import type { Definition, Service } from '../../model/service/index.ts';

/** The fields that matter to a test; the rest get plain defaults. */
export interface Sample extends Partial<Omit<Service, 'definition' | 'token'>> {
  token?: string;
  definition?: Partial<Definition>;
}

export function sampleService(name: string, { token, definition, ...known }: Sample = {}): Service {
  return {
    uid: `uid-of-${name}`,
    owner: 'alice',
    ownerName: 'Alice',
    namespace: 'oscar-svc',
    token: new Secret(token ?? `token-of-${name}`),
    ...known,
    definition: { ...plainDefinition(name), ...definition },
  };
}

/** The service with its token in plain text, for comparisons. */
export function revealed(service: Service): Record<string, unknown> {
  return { ...service, token: service.token.reveal() };
}

function plainDefinition(name: string): Definition {
  return {
    name,
    cluster_id: 'oscar-cluster',
    memory: '256Mi',
    cpu: '0.2',
    total_memory: '',
    total_cpu: '',
    ephemeral_storage_request: '',
    enable_gpu: false,
    enable_sgx: false,
    image_prefetch: false,
    synchronous: { min_scale: 0, max_scale: 0 },
    log_level: 'INFO',
    image: 'ghcr.io/grycap/cowsay',
    alpine: false,
    file_stage_in: false,
    input: [],
    output: [],
    script: '#!/bin/sh\ncowsay "$(cat "$INPUT_FILE_PATH")"\n',
    expose: {
      min_scale: 0,
      max_scale: 0,
      cpu_threshold: 0,
      rewrite_target: false,
      default_command: false,
      set_auth: false,
      health_path: '',
    },
    environment: { variables: {}, secrets: {} },
    annotations: {},
    vo: '',
    labels: {},
    interlink_node_name: '',
    visibility: 'private',
    allowed_users: [],
    isolation_level: '',
    mount: { storage_provider: '', path: '' },
  };
}
