import type { Algorithm, ChecksumType } from '../payload/checksum.ts';
import type { Database } from './database.ts';

export interface UploadRow {
  id: string;
  bucket: number;
  key: string;
  begun: number;
  content_type: string;
  headers: string | null;
  tags: string | null;
  checksum_algorithm: Algorithm | null;
  checksum_type: ChecksumType | null;
}

interface PartRow {
  number: number;
  file: string | null;
  size: number;
  eTag: string;
  checksum: string | null;
  modified: number;
}

/** How many are forgotten in one transaction; each may have ten thousand parts. */
const AT_ONCE = 10;

export function prepareUploads(database: Database) {
  const columns = 'id, bucket, key, begun, content_type, headers, tags, checksum_algorithm, checksum_type';
  const part = 'number, file, size, etag AS eTag, checksum, modified';
  return {
    begin: database.query(
      `INSERT INTO upload
         (id, bucket, key, begun, touched, content_type, headers, tags, checksum_algorithm, checksum_type)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    find: database.query<UploadRow>(`SELECT ${columns} FROM upload WHERE id = ? AND bucket = ? AND key = ?`),
    touch: database.query('UPDATE upload SET touched = ? WHERE id = ?'),
    part: database.query<PartRow>(`SELECT ${part} FROM part WHERE upload = ? AND number = ?`),
    parts: database.query<PartRow>(`SELECT ${part} FROM part WHERE upload = ? AND number > ? ORDER BY number LIMIT ?`),
    putPart: database.query(
      `INSERT OR REPLACE INTO part (upload, number, file, size, etag, checksum, modified) VALUES (?, ?, ?, ?, ?, ?, ?)`,
    ),
    list: database.query<UploadRow>(
      `SELECT ${columns} FROM upload
       WHERE bucket = ? AND (key > ? OR (key = ? AND id > ?)) AND key >= ?
       ORDER BY key, id LIMIT ?`,
    ),
    ofBucket: database.query<{ id: string; bucket: number }>(
      `SELECT id, bucket FROM upload WHERE bucket = ? LIMIT ${AT_ONCE}`,
    ),
    stale: database.query<{ id: string; bucket: number }>(
      `SELECT id, bucket FROM upload WHERE touched < ? LIMIT ${AT_ONCE}`,
    ),
    drop: database.query('DELETE FROM upload WHERE id = ?'),
    dropParts: database.query('DELETE FROM part WHERE upload = ?'),
    count: database.query('UPDATE bucket SET pending = pending + ? WHERE id = ?'),
  };
}
