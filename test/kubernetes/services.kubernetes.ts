import { registerHooks } from 'node:module';
import { after } from 'node:test';
import { testbed } from './as-embedded-cluster.ts';

/**
 * Runs the tests of `src/services/` on Kubernetes: a module hook replaces the embedded cluster that they import. Their
 * second run, on a store with the worst behaviour that the port permits, uses Kubernetes too.
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

for (const verb of ['create', 'read', 'update', 'remove']) await import(`../../src/services/${verb}.test.ts`);
