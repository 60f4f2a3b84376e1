/** A file, directory (name ends with a slash) or link, as it stands in an archive. All belong to root and are of 1970. */
export interface TarEntry {
  readonly name: string;
  readonly mode?: number;
  readonly bytes?: Uint8Array;
  readonly linkTo?: string;
}

const BLOCK = 512;

/** A POSIX archive. The same entries give the same bytes. */
export function tar(entries: readonly TarEntry[]): Buffer {
  const parts = entries.flatMap(({ bytes = new Uint8Array(), ...entry }) => [
    header(entry, bytes.length),
    bytes,
    Buffer.alloc(-bytes.length & (BLOCK - 1)),
  ]);
  return Buffer.concat([...parts, Buffer.alloc(2 * BLOCK)]);
}

function header({ name, mode, linkTo }: TarEntry, size: number): Buffer {
  const directory = name.endsWith('/');
  const block = Buffer.alloc(BLOCK);
  const octal = (value: number, at: number, width: number) =>
    block.write(value.toString(8).padStart(width - 1, '0'), at, 'latin1');
  const { prefix, rest } = splitName(name);
  block.write(rest, 0, 'utf8');
  octal(mode ?? (directory ? 0o755 : 0o644), 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(size, 124, 12);
  octal(0, 136, 12);
  block.fill(' ', 148, 156);
  block.write(linkTo === undefined ? (directory ? '5' : '0') : '2', 156, 'latin1');
  block.write(linkTo ?? '', 157, 'utf8');
  block.write('ustar\x0000', 257, 'latin1');
  block.write(prefix, 345, 'utf8');
  octal(
    block.reduce((sum, byte) => sum + byte, 0),
    148,
    7,
  );
  return block;
}

/** A long name stands in two fields, the slash between them left out: 155 bytes and 100. */
function splitName(name: string): { prefix: string; rest: string } {
  if (Buffer.byteLength(name) <= 100) return { prefix: '', rest: name };
  const slashes = [...name.matchAll(/\//g)].map(({ index }) => index).filter((index) => index < name.length - 1);
  for (const at of slashes) {
    const [prefix, rest] = [name.slice(0, at), name.slice(at + 1)];
    if (Buffer.byteLength(prefix) <= 155 && Buffer.byteLength(rest) <= 100) return { prefix, rest };
  }
  throw new Error(`${name} is too long for a simple archive`);
}
