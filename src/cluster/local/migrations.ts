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
  `
  -- seq is the number of the change that made the job, so that no two jobs ever have the same. marked_at is when the
  -- object that caused it was modified. Times are REAL, which keeps whole numbers as such and does not refuse others.
  CREATE TABLE jobs (
    seq         INTEGER PRIMARY KEY,
    change      INTEGER NOT NULL,
    service     TEXT NOT NULL,
    id          TEXT NOT NULL,
    service_uid TEXT NOT NULL,
    invoker     TEXT NOT NULL,
    principal   TEXT NOT NULL,
    trigger     TEXT NOT NULL,
    accepted_at REAL NOT NULL,
    marked_at   REAL NOT NULL,
    standing    TEXT NOT NULL CHECK (standing IN ('unfinished', 'finished', 'hidden')),
    state       TEXT NOT NULL,
    ended_at    REAL,
    version     TEXT NOT NULL,
    event_bytes INTEGER NOT NULL,
    job         TEXT NOT NULL,
    progress    TEXT NOT NULL,
    UNIQUE (service, id)
  ) STRICT;

  -- With all that a list may ask for, so that what it leaves out is passed over without reading its row.
  CREATE INDEX jobs_listed ON jobs (service, accepted_at, seq, state, trigger, invoker, principal)
    WHERE standing <> 'hidden';
  CREATE INDEX jobs_unfinished ON jobs (accepted_at, seq, state) WHERE standing = 'unfinished';
  CREATE INDEX jobs_ended ON jobs (ended_at) WHERE standing = 'finished';
  CREATE INDEX jobs_marks ON jobs (service_uid, marked_at) WHERE standing = 'hidden';
  CREATE INDEX jobs_changed ON jobs (change, service) WHERE standing <> 'hidden';
  CREATE INDEX jobs_accepted ON jobs (accepted_at, seq);
  CREATE INDEX jobs_of_service ON jobs (service_uid);

  -- Apart, so that no list reads past it.
  CREATE TABLE job_events (
    seq   INTEGER PRIMARY KEY REFERENCES jobs (seq) ON DELETE CASCADE,
    event BLOB NOT NULL
  ) STRICT;

  CREATE TABLE job_counts (
    state TEXT NOT NULL PRIMARY KEY,
    jobs  INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE job_gone (
    change  INTEGER PRIMARY KEY,
    service TEXT NOT NULL,
    id      TEXT NOT NULL,
    UNIQUE (service, id)
  ) STRICT;

  -- store is in every cursor of changes; those up to forgotten are not known any more.
  CREATE TABLE job_changes (
    row       INTEGER PRIMARY KEY CHECK (row = 1),
    store     TEXT NOT NULL,
    forgotten INTEGER NOT NULL
  ) STRICT;

  INSERT INTO job_changes (row, store, forgotten) VALUES (1, lower(hex(randomblob(8))), 0);
  `,
  `
  -- What it is in a federation, as JSON.
  ALTER TABLE services ADD COLUMN federation TEXT;
  `,
];
