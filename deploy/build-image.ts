/**
 * Builds the container image of the manager without Docker and without a registry:
 *
 *     npx node deploy/build-image.ts --output oscar-manager.tar --name localhost/oscar-manager:test
 *     docker load -i oscar-manager.tar        # or: podman load, or: ctr -n k8s.io images import oscar-manager.tar
 *
 * The same checkout on the same system gives the same bytes. `--root <directory>` writes the files themselves instead,
 * which is what the Dockerfile makes its image of.
 */
import { chmodSync, mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { archiveOf, imageDigest } from './image/image.ts';
import { managerImage, managerLayers } from './image/manager-image.ts';

const CHECKOUT = fileURLToPath(new URL('..', import.meta.url));

const { values } = parseArgs({
  options: {
    output: { type: 'string', short: 'o' },
    name: { type: 'string', default: 'localhost/oscar-manager:test' },
    root: { type: 'string' },
  },
});

if (values.root !== undefined) writeRoot(values.root);
else if (values.output !== undefined) writeArchive(values.output, values.name);
else {
  process.stderr.write('say where the image goes: --output oscar-manager.tar, or its files: --root directory\n');
  process.exitCode = 2;
}

function writeArchive(output: string, name: string): void {
  const image = managerImage(CHECKOUT);
  const archive = archiveOf({ [name]: image });
  // The file appears under its name only when it is complete.
  writeFileSync(`${output}.unfinished`, archive);
  renameSync(`${output}.unfinished`, output);
  process.stdout.write(`${output}: ${name}@${imageDigest(image)}, ${Math.round(archive.length / 2 ** 20)} MiB\n`);
}

function writeRoot(root: string): void {
  for (const { name, bytes, linkTo, mode } of managerLayers(CHECKOUT).flat()) {
    const path = join(root, name);
    mkdirSync(dirname(path), { recursive: true });
    if (name.endsWith('/')) mkdirSync(path, { recursive: true });
    else if (linkTo !== undefined) symlinkSync(linkTo, path);
    else writeFileSync(path, bytes ?? '');
    // Whatever the umask says.
    if (linkTo === undefined) chmodSync(path, mode ?? (name.endsWith('/') ? 0o755 : 0o644));
  }
}
