import type { Checksum, ChecksumType } from '../lib/checksum.ts';
import type { Modification } from './modification-clock.ts';

/** What a client says about an object, and gets back with it. */
export interface Description {
  readonly contentType: string;
  /** Names in lower case: `x-amz-meta-*`, `cache-control`, `content-disposition`, `content-encoding` and so on. */
  readonly headers: Readonly<Record<string, string>>;
  readonly tags: Readonly<Record<string, string>>;
}

export interface StoredChecksum extends Checksum {
  readonly type: ChecksumType;
}

export interface ObjectRecord extends Description, Modification {
  readonly key: string;
  readonly size: number;
  /** Without quotes. */
  readonly eTag: string;
  readonly checksum: StoredChecksum | undefined;
  /** When it was made of parts. */
  readonly parts: number | undefined;
  /** Its number in the database; null for nothing. */
  readonly content: number | null;
}

export interface ObjectRow {
  key: string;
  size: number;
  etag: string;
  modified: number;
  sequencer: string;
  content: number | null;
  content_type: string;
  headers: string | null;
  checksum: string | null;
  tags: string | null;
  parts: number | null;
}

/** Most objects have none, and then nothing is stored. */
export const packed = (values: Readonly<Record<string, string>>) =>
  Object.keys(values).length === 0 ? null : JSON.stringify(values);

export const unpacked = (text: string | null): Readonly<Record<string, string>> => (text ? JSON.parse(text) : {});

export function recordOf(row: ObjectRow): ObjectRecord {
  return {
    key: row.key,
    size: row.size,
    eTag: row.etag,
    modified: row.modified,
    sequencer: row.sequencer,
    contentType: row.content_type,
    headers: unpacked(row.headers),
    tags: unpacked(row.tags),
    checksum: row.checksum === null ? undefined : JSON.parse(row.checksum),
    parts: row.parts ?? undefined,
    content: row.content,
  };
}
