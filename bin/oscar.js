#!/usr/bin/env node
// Plain JavaScript, because loading even one TypeScript file brings in Node's type stripper, some 30 MB. With the cache
// that this turns on, only the first run needs it: the stripped and compiled code is kept. What is in the cache gets
// executed, so it lies with the packages, where nobody writes who could not change the code itself.
import { enableCompileCache } from 'node:module';
import { fileURLToPath } from 'node:url';

enableCompileCache(fileURLToPath(new URL('../node_modules/.cache/oscar-manager', import.meta.url)));
await import('../src/main.ts');
