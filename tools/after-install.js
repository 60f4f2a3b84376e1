// After `npm ci`: npm links the commands of the packages, not those of the project itself.
import { spawnSync } from 'node:child_process';
import { existsSync, rmSync, symlinkSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const here = (path) => fileURLToPath(new URL(path, import.meta.url));

const link = here('../node_modules/.bin/oscar');
try {
  rmSync(link, { force: true });
  symlinkSync('../../bin/oscar.js', link);
} catch (error) {
  process.stderr.write(`node_modules/.bin/oscar could not be made, npx oscar works: ${error.message}\n`);
}

// The bundler is a development dependency: without it, the page is what was published with the package.
if (existsSync(here('../node_modules/esbuild'))) {
  const node = here('../node_modules/.bin/node');
  const built = spawnSync(existsSync(node) ? node : process.execPath, [here('build-page.ts')], { stdio: 'inherit' });
  if (built.status !== 0) process.stderr.write('the page could not be built: run `npm run build:page`\n');
}

// With the pinned Node, which can run it.
spawnSync(here('../node_modules/.bin/node'), [here('compile-supervisor.ts')], { stdio: 'inherit' });

// The first run strips and compiles what all others find in the cache.
const { status } = spawnSync(process.execPath, [here('../bin/oscar.js'), 'version'], { stdio: 'inherit' });
process.exitCode = status ?? 1;
