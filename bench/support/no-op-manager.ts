import { registerHooks } from 'node:module';

/**
 * A manager in all its parts but one: its scripts are not run. Only to measure what it costs beside them:
 * `node bench/support/no-op-manager.ts serve`.
 */

const RUNNER = import.meta.resolve('../../src/adapters/local-runner/index.ts');
const NO_RUNNER = import.meta.resolve('./no-op-runner.ts');

let isReplaced = false;
registerHooks({
  resolve(specifier, context, next) {
    const found = next(specifier, context);
    if (found.url !== RUNNER || context.parentURL === NO_RUNNER) return found;
    isReplaced = true;
    return { ...found, url: NO_RUNNER };
  },
});

await import('../../src/manager/jobs.ts');
if (!isReplaced) throw new Error('scripts are run after all: not a benchmark');
await import('../../src/main.ts');
