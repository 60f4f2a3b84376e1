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
  if (name.length > 100) throw new Error(`${name} is too long for a simple archive`);
  const directory = name.endsWith('/');
  const block = Buffer.alloc(BLOCK);
  const octal = (value: number, at: number, width: number) =>
    block.write(value.toString(8).padStart(width - 1, '0'), at, 'latin1');
  block.write(name, 0, 'latin1');
  octal(mode ?? (directory ? 0o755 : 0o644), 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(size, 124, 12);
  octal(0, 136, 12);
  block.fill(' ', 148, 156);
  block.write(linkTo === undefined ? (directory ? '5' : '0') : '2', 156, 'latin1');
  block.write(linkTo ?? '', 157, 'latin1');
  block.write('ustar\x0000', 257, 'latin1');
  octal(
    block.reduce((sum, byte) => sum + byte, 0),
    148,
    7,
  );
  return block;
}
