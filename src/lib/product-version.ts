import { readFileSync } from 'node:fs';

const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
  version: string;
};

export const VERSION = version;

/**
 * The level of the OSCAR API that this manager implements: that of the Go manager whose exchanges are replayed. Clients
 * decide by it what to show; the dashboard hides its deployment pages below 4.1.0.
 */
export const API_VERSION = '4.1.2';

/** The commit of this program: of the checkout, or the one that was written into the image; empty if neither is there. */
export function readCommit(root = new URL('../../', import.meta.url)): string {
  const read = (name: string) => readFileSync(new URL(name, root), 'utf8').trim();
  try {
    return read('.commit');
  } catch {
    // Not an image.
  }
  try {
    const head = read('.git/HEAD');
    if (!head.startsWith('ref: ')) return toCommit(head);
    const ref = head.slice('ref: '.length);
    try {
      return toCommit(read(`.git/${ref}`));
    } catch {
      const packed = read('.git/packed-refs').split('\n');
      return toCommit(packed.find((line) => line.endsWith(` ${ref}`))?.split(' ')[0] ?? '');
    }
  } catch {
    return '';
  }
}

const toCommit = (text: string) => (/^[0-9a-f]{40,64}$/.test(text) ? text : '');

/** As Go names them, since clients show it. */
const GO_ARCHITECTURES: Record<string, string> = { x64: 'amd64', ia32: '386' };

export const ARCHITECTURE = GO_ARCHITECTURES[process.arch] ?? process.arch;
