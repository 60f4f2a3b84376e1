import type { Field } from '../../lib/fields.ts';
import { type PeerAddress, PeerError } from '../peer.ts';

/** Validates a value before it is written into a path or a header. */
export function validField(field: Field<string>, value: string, { clusterId }: PeerAddress): string {
  const read = field.read(value);
  if (read !== undefined) return read;
  throw new PeerError('failed', `cluster "${clusterId}" was not asked: "${value}" is not ${field.is}`);
}
