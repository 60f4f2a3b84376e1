import type { Segment } from './content-files.ts';
import type { StoreDatabase } from './database.ts';

/** Content to store: bytes, files that are already on disk, or the content of another object. */
export type NewContent =
  | { readonly kind: 'inline'; readonly data: Uint8Array }
  | { readonly kind: 'files'; readonly segments: readonly Segment[] }
  | { readonly kind: 'shared'; readonly content: number | null };

export type StoredContent =
  | { readonly kind: 'inline'; readonly data: Uint8Array }
  | { readonly kind: 'files'; readonly segments: readonly Segment[] };

const NOTHING: StoredContent = { kind: 'inline', data: new Uint8Array(0) };

/** Content in the database with reference counts: copies of an object share it, and it is removed with the last one. */
export class Contents {
  readonly #statements: ReturnType<typeof prepare>;

  constructor(database: StoreDatabase) {
    this.#statements = prepare(database);
  }

  read(content: number | null): StoredContent {
    if (content === null) return NOTHING;
    const row = this.#statements.read.get(content);
    if (row?.data) return { kind: 'inline', data: row.data };
    return { kind: 'files', segments: this.#statements.segments.all(content) };
  }

  /** Call it in a transaction. Empty content is null. */
  add(content: NewContent): number | null {
    if (content.kind === 'shared') {
      if (content.content !== null) this.#statements.count.run(1, content.content);
      return content.content;
    }
    if (content.kind === 'inline') {
      return content.data.length === 0 ? null : Number(this.#statements.add.run(content.data).lastInsertRowid);
    }
    const id = Number(this.#statements.add.run(null).lastInsertRowid);
    for (const [n, { file, size }] of content.segments.entries()) this.#statements.addSegment.run(id, n, file, size);
    return id;
  }

  /** Call it in a transaction. Returns the files that are no longer needed. */
  release(content: number | null): string[] {
    if (content === null) return [];
    this.#statements.count.run(-1, content);
    if (Number(this.#statements.dropUnused.run(content).changes) === 0) return [];
    const files = this.#statements.segments.all(content).map(({ file }) => file);
    if (files.length > 0) this.#statements.dropSegments.run(content);
    return files;
  }

  isReferenced(file: string): boolean {
    return this.#statements.mentions.get(file, file) !== undefined;
  }
}

function prepare(database: StoreDatabase) {
  return {
    read: database.query<{ data: Uint8Array | null }>('SELECT data FROM content WHERE id = ?'),
    segments: database.query<Segment>('SELECT file, size FROM segment WHERE content = ? ORDER BY n'),
    add: database.query('INSERT INTO content (refs, data) VALUES (1, ?)'),
    addSegment: database.query('INSERT INTO segment (content, n, file, size) VALUES (?, ?, ?, ?)'),
    count: database.query('UPDATE content SET refs = refs + ? WHERE id = ?'),
    dropUnused: database.query('DELETE FROM content WHERE id = ? AND refs <= 0'),
    dropSegments: database.query('DELETE FROM segment WHERE content = ?'),
    mentions: database.query<{ found: number }>(
      'SELECT 1 AS found FROM segment WHERE file = ? UNION ALL SELECT 1 FROM part WHERE file = ? LIMIT 1',
    ),
  };
}
