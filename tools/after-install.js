// After `npm ci`: npm links the commands of the packages, not those of the project itself.
import { spawnSync } from 'node:child_process';
import { rmSync, symlinkSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const here = (path) => fileURLToPath(new URL(path, import.meta.url));

const link = here('../node_modules/.bin/oscar');
try {
  rmSync(link, { force: true });
  symlinkSync('../../bin/oscar.js', link);
} catch (error) {
  process.stderr.write(`node_modules/.bin/oscar could not be made, npx oscar works: ${error.message}\n`);
}

// The first run strips and compiles what all others find in the cache.
const { status } = spawnSync(process.execPath, [here('../bin/oscar.js'), 'version'], { stdio: 'inherit' });
process.exitCode = status ?? 1;
