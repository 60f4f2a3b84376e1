import { registerHooks } from 'node:module';
import { after } from 'node:test';
import { testbed } from './as-embedded-cluster.ts';

/**
 * The tests of `src/services/`, which open an embedded cluster, on Kubernetes: what they import as the embedded cluster
 * is another file here. Their second run, on a store that does its worst within the port's promises, is on it too.
 */
const FIXTURE = new URL('../../src/services/services.fixture.ts', import.meta.url).href;
const EMBEDDED = new URL('../../src/adapters/sqlite/index.ts', import.meta.url).href;
const STAND_IN = new URL('as-embedded-cluster.ts', import.meta.url).href;

after(() => testbed.plane.stop());

registerHooks({
  resolve(specifier, context, next) {
    const resolved = next(specifier, context);
    return context.parentURL === FIXTURE && resolved.url === EMBEDDED ? { ...resolved, url: STAND_IN } : resolved;
  },
});

for (const verb of ['create', 'list', 'update', 'remove']) await import(`../../src/services/${verb}.test.ts`);
