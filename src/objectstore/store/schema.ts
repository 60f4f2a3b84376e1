/**
 * One step per version of the schema; a step that was released is never changed.
 *
 * Content stands apart from objects: copies share it, and lists of objects stay dense. `segment` says which files make
 * up a content that is not inline. A bucket whose removal was decided has a name no request can have (`!<id>`) until
 * its content is gone.
 */
export const MIGRATIONS: readonly string[] = [
  `CREATE TABLE bucket (
     id INTEGER PRIMARY KEY,
     name TEXT NOT NULL UNIQUE,
     owner TEXT NOT NULL,
     visibility TEXT NOT NULL,
     allowed_users TEXT NOT NULL,
     tags TEXT NOT NULL,
     made_by TEXT,
     cors TEXT,
     quota INTEGER,
     created INTEGER NOT NULL,
     objects INTEGER NOT NULL DEFAULT 0,
     bytes INTEGER NOT NULL DEFAULT 0,
     pending INTEGER NOT NULL DEFAULT 0
   ) STRICT;
   CREATE INDEX bucket_by_owner ON bucket (owner, name);
   CREATE TABLE object (
     bucket INTEGER NOT NULL,
     key TEXT NOT NULL,
     size INTEGER NOT NULL,
     etag TEXT NOT NULL,
     modified INTEGER NOT NULL,
     sequencer TEXT NOT NULL,
     content INTEGER,
     content_type TEXT NOT NULL,
     headers TEXT,
     checksum TEXT,
     tags TEXT,
     parts INTEGER,
     PRIMARY KEY (bucket, key)
   ) STRICT, WITHOUT ROWID;
   CREATE TABLE content (id INTEGER PRIMARY KEY, refs INTEGER NOT NULL, data BLOB) STRICT;
   CREATE TABLE segment (
     content INTEGER NOT NULL, n INTEGER NOT NULL, file TEXT NOT NULL, size INTEGER NOT NULL,
     PRIMARY KEY (content, n)
   ) STRICT, WITHOUT ROWID;
   CREATE INDEX segment_by_file ON segment (file);
   CREATE TABLE upload (
     id TEXT PRIMARY KEY,
     bucket INTEGER NOT NULL,
     key TEXT NOT NULL,
     begun INTEGER NOT NULL,
     touched INTEGER NOT NULL,
     content_type TEXT NOT NULL,
     headers TEXT,
     tags TEXT,
     checksum_algorithm TEXT,
     checksum_type TEXT
   ) STRICT, WITHOUT ROWID;
   CREATE INDEX upload_by_key ON upload (bucket, key, id);
   CREATE TABLE part (
     upload TEXT NOT NULL, number INTEGER NOT NULL, file TEXT, size INTEGER NOT NULL, etag TEXT NOT NULL,
     checksum TEXT, modified INTEGER NOT NULL,
     PRIMARY KEY (upload, number)
   ) STRICT, WITHOUT ROWID;
   CREATE INDEX part_by_file ON part (file);
   CREATE TABLE user (access_key TEXT PRIMARY KEY, secret BLOB NOT NULL) STRICT, WITHOUT ROWID;
   CREATE TABLE session (
     access_key TEXT PRIMARY KEY,
     kind TEXT NOT NULL,
     parent TEXT NOT NULL,
     secret BLOB NOT NULL,
     token_hash TEXT NOT NULL,
     policy TEXT,
     expires INTEGER NOT NULL
   ) STRICT, WITHOUT ROWID;
   CREATE INDEX session_by_parent ON session (parent);
   CREATE INDEX session_by_expiry ON session (expires);
   CREATE TABLE rule (
     bucket INTEGER NOT NULL, id TEXT NOT NULL, prefix TEXT NOT NULL, suffix TEXT NOT NULL,
     PRIMARY KEY (bucket, id)
   ) STRICT, WITHOUT ROWID;
   CREATE TABLE event (
     seq INTEGER PRIMARY KEY AUTOINCREMENT,
     bucket TEXT NOT NULL, key TEXT NOT NULL, etag TEXT NOT NULL, size INTEGER NOT NULL, modified INTEGER NOT NULL,
     event TEXT NOT NULL
   ) STRICT`,
  // Who a restricted bucket is shared with, as rows: whoever asks for the buckets of somebody finds them by an index.
  `CREATE TABLE share (user TEXT NOT NULL, name TEXT NOT NULL, PRIMARY KEY (user, name)) STRICT, WITHOUT ROWID;
   CREATE INDEX share_by_name ON share (name);
   INSERT INTO share (user, name)
     SELECT DISTINCT each.value, bucket.name FROM bucket, json_each(bucket.allowed_users) AS each
     WHERE bucket.visibility = 'restricted' AND bucket.name > '!~';
   CREATE INDEX bucket_public ON bucket (name) WHERE visibility = 'public';
   CREATE INDEX bucket_by_maker ON bucket (made_by, name) WHERE made_by IS NOT NULL`,
  // What keys were given for: whoever ends it ends them, also after a restart.
  `ALTER TABLE session ADD COLUMN purpose TEXT;
   CREATE INDEX session_by_purpose ON session (purpose) WHERE purpose IS NOT NULL`,
];
