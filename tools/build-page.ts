import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { build, type OutputFile } from 'esbuild';

/**
 * Bundles the page (`web/`) into `web/dist`, which the manager serves below `/ui/`. Names contain a hash of the content, so
 * that browsers may cache them for ever. Each file is compressed here, once, and not for each request.
 */

const page = fileURLToPath(new URL('../web/', import.meta.url));
const out = join(page, 'dist');

const { outputFiles } = await build({
  entryPoints: [join(page, 'main.tsx'), join(page, 'styles/page.css')],
  bundle: true,
  splitting: true,
  format: 'esm',
  target: ['chrome120', 'firefox121', 'safari17'],
  minify: true,
  sourcemap: 'linked',
  jsx: 'automatic',
  define: { 'process.env.NODE_ENV': '"production"' },
  entryNames: '[name]-[hash]',
  chunkNames: '[name]-[hash]',
  assetNames: '[name]-[hash]',
  outdir: out,
  legalComments: 'none',
  logLevel: 'warning',
  write: false,
});

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
for (const { path, contents } of outputFiles) writeCompressed(basename(path), contents);
writeCompressed('index.html', Buffer.from(fillIn(readFileSync(join(page, 'index.html'), 'utf8'), outputFiles)));

function writeCompressed(name: string, contents: Uint8Array): void {
  writeFileSync(join(out, name), contents);
  if (name.endsWith('.map')) return;
  const quality = { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY };
  writeFileSync(join(out, `${name}.br`), brotliCompressSync(contents, { params: quality }));
  writeFileSync(join(out, `${name}.gz`), gzipSync(contents, { level: 9 }));
}

/** Replaces `{{main.js}}` by the name with the hash. */
function fillIn(html: string, files: readonly OutputFile[]): string {
  return html.replace(/\{\{(\w+)\.(\w+)\}\}/g, (_, name: string, ending: string) => {
    const found = files
      .map(({ path }) => basename(path))
      .find((file) => file.startsWith(`${name}-`) && file.endsWith(`.${ending}`));
    if (found === undefined) throw new Error(`the bundle has no ${name}.${ending}`);
    return found;
  });
}
