import { ClientError } from '../../client/errors.ts';

/** An object, or a folder, of a store. */
export interface Place {
  readonly bucket: string;
  /** Empty for the whole bucket. */
  readonly key: string;
}

/** How a place of a store is written where a file could be meant, as with other tools for S3. */
const SCHEME = 's3://';

export const isPlace = (text: string) => text.startsWith(SCHEME);

/** `bucket`, `bucket/folder/file`, with or without `s3://`. */
export function placeOf(text: string): Place {
  const bare = isPlace(text) ? text.slice(SCHEME.length) : text;
  const slash = bare.indexOf('/');
  const bucket = slash < 0 ? bare : bare.slice(0, slash);
  if (bucket === '') throw new ClientError('usage', `"${text}" names no bucket: write BUCKET/FOLDER`);
  return { bucket, key: slash < 0 ? '' : bare.slice(slash + 1) };
}

/** Where a file goes: into a folder, if that is what is named, else under that very name. */
export function within({ bucket, key }: Place, file: string, always: boolean): Place {
  const isFolder = always || key === '' || key.endsWith('/');
  const folder = key === '' || key.endsWith('/') ? key : `${key}/`;
  return isFolder ? { bucket, key: `${folder}${file}` } : { bucket, key };
}
