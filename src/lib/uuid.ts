import { hash } from 'node:crypto';

/** RFC 9562 §5.5: the same name in the same space is always the same id. */
export function uuidV5(space: string, name: string): string {
  const bytes = hash(
    'sha1',
    Buffer.concat([Buffer.from(space.replaceAll('-', ''), 'hex'), Buffer.from(name)]),
    'buffer',
  );
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x50;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  const hex = bytes.toString('hex');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20, 32)].join('-');
}
