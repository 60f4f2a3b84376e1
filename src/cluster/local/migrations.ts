/**
 * The schema, as the steps that lead to it: the n-th makes version n out of version n-1. A step that was released is
 * never edited. Whoever changes `termsOf` in `index-terms.ts` adds a step that brings `service_terms` up to date.
 */
export const MIGRATIONS: readonly string[] = [
  `
  -- place is <namespace>/<name>: what lists are ordered by.
  CREATE TABLE services (
    name       TEXT NOT NULL PRIMARY KEY,
    place      TEXT NOT NULL,
    uid        TEXT NOT NULL,
    version    TEXT NOT NULL,
    owner      TEXT NOT NULL,
    owner_name TEXT NOT NULL,
    namespace  TEXT NOT NULL,
    token      BLOB NOT NULL,
    definition TEXT NOT NULL
  ) STRICT;

  CREATE INDEX services_by_place ON services (place, name);

  -- The key holds everything a lookup needs, so that it never touches the definitions.
  CREATE TABLE service_terms (
    term  TEXT NOT NULL,
    place TEXT NOT NULL,
    name  TEXT NOT NULL REFERENCES services (name) ON DELETE CASCADE,
    PRIMARY KEY (term, place, name)
  ) STRICT, WITHOUT ROWID;

  CREATE INDEX service_terms_by_name ON service_terms (name);

  CREATE TABLE reservations (
    name    TEXT NOT NULL PRIMARY KEY,
    uid     TEXT NOT NULL,
    made_at INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE secrets (
    room    TEXT NOT NULL,
    key     TEXT NOT NULL,
    version TEXT NOT NULL,
    sealed  BLOB NOT NULL,
    PRIMARY KEY (room, key)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE journal (
    key     TEXT NOT NULL PRIMARY KEY,
    version TEXT NOT NULL,
    state   TEXT NOT NULL
  ) STRICT;

  CREATE TABLE settings (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    version  TEXT NOT NULL,
    settings TEXT NOT NULL
  ) STRICT;

  -- Something sealed with the key this database belongs to.
  CREATE TABLE sealing (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    proof BLOB NOT NULL
  ) STRICT;
  `,
];
