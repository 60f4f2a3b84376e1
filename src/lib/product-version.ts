import { readFileSync } from 'node:fs';

const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
  version: string;
};

export const VERSION = version;

/** As Go names them, since clients show it. */
const GO_ARCHITECTURES: Record<string, string> = { x64: 'amd64', ia32: '386' };

export const ARCHITECTURE = GO_ARCHITECTURES[process.arch] ?? process.arch;
