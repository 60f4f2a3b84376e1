import { Secret } from '../../base/secret.ts';
import { StoreError } from '../errors.ts';
import type { Room, SecretValues } from '../secret-store.ts';
import type { SecretObject, Stored } from './api/kinds.ts';
import { derivedName, isObjectName, KEY, ROOM } from './marks.ts';

/** What a Secret may hold, counted by Kubernetes over all its values. */
const SECRET_BYTES = 1024 * 1024;

/** Where all values stand together, in rooms whose names may be anything. */
const VALUES = 'values';

/** Undefined when there can be none. */
export function placeOf(room: Room, key: string, manager: string): { namespace: string; name: string } | undefined {
  if (room !== 'service') return { namespace: manager, name: derivedName(room, key) };
  const [namespace = '', name = ''] = key.split('/');
  return isObjectName(namespace) && isObjectName(name) ? { namespace, name } : undefined;
}

/** Does the object say that it is of this room and key? */
export function isOfRoom(room: Room, key: string, { metadata }: Stored<SecretObject>): boolean {
  return metadata.labels?.[ROOM] === room && metadata.annotations?.[KEY] === key;
}

export function pack(room: Room, key: string, values: SecretValues, manager: string): SecretObject {
  const place = placeOf(room, key, manager);
  if (!place) throw new StoreError('absent', `"${key}" is not <namespace>/<service>`);
  const entries = Object.entries(values).map(([name, secret]) => [name, secret.reveal()] as const);
  const plain = room === 'service' ? entries : [[VALUES, JSON.stringify(entries)] as const];
  const size = plain.reduce((sum, [, value]) => sum + Buffer.byteLength(value), 0);
  if (size > SECRET_BYTES) {
    throw new StoreError(
      'too-large',
      `the secrets of ${room} ${key} have ${size} bytes, and ${SECRET_BYTES} is the most that Kubernetes keeps`,
    );
  }
  return {
    metadata: { ...place, labels: { [ROOM]: room }, annotations: { [KEY]: key } },
    type: 'Opaque',
    data: Object.fromEntries(plain.map(([name, value]) => [name, Buffer.from(value).toString('base64')])),
  };
}

export function unpack(room: Room, { data = {}, metadata }: Stored<SecretObject>): SecretValues {
  const plain = Object.entries(data).map(([name, value]) => [name, Buffer.from(value, 'base64').toString()]);
  const entries = room === 'service' ? plain : parse(Object.fromEntries(plain)[VALUES], metadata.name);
  return Object.freeze(Object.fromEntries(entries.map(([name = '', value = '']) => [name, new Secret(value)])));
}

function parse(packed: string | undefined, name: string): string[][] {
  try {
    const entries: string[][] = JSON.parse(packed ?? '');
    return entries;
  } catch {
    // Without the cause, which would quote a value.
    throw new StoreError('damaged', `the Secret ${name} in the manager's namespace cannot be read`);
  }
}
