import { Secret } from '../../lib/secret.ts';
import { readDefinition } from './read.ts';
import type { Service } from './service.ts';

/** A service for tests: the minimal body plus the given keys. */
export function aService(body: Record<string, unknown> = {}, more: Partial<Service> = {}): Service {
  return {
    uid: '6f1c2a4e-0000-4000-8000-000000000001',
    definition: readDefinition({ name: 'demo', image: 'ubuntu', script: 'echo', ...body }).definition,
    owner: 'cluster_admin',
    ownerName: 'oscar',
    namespace: 'oscar-svc',
    token: new Secret('ab'.repeat(32)),
    ...more,
  };
}
