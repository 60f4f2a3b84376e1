import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bucketView, goTime } from './bucket-view.ts';

test('bucket view: times have the format of the Go manager', () => {
  assert.equal(goTime(Date.UTC(2026, 10, 15, 20, 13, 16, 730)), '2026-11-15 20:13:16.73 +0000 UTC');
  assert.equal(goTime(Date.UTC(2026, 10, 15, 20, 13, 16, 7)), '2026-11-15 20:13:16.007 +0000 UTC');
  assert.equal(goTime(Date.UTC(2026, 10, 15, 20, 0, 0, 0)), '2026-11-15 20:00:00 +0000 UTC');
  assert.equal(goTime(Date.UTC(2026, 10, 15, 20, 10, 10, 500)), '2026-11-15 20:10:10.5 +0000 UTC');
});

test('bucket view: keys have the order of the Go manager', () => {
  const shown = bucketView(
    {
      name: 'demo',
      owner: 'alice',
      ownerName: 'Alice',
      visibility: 'restricted',
      allowedUsers: ['bob'],
      madeFor: { uid: 'u', service: 'svc' },
      usage: { bytes: 12, objects: 2 },
    },
    'oscar',
    { withOwner: true, objects: [{ key: 'in/a', bytes: 12, eTag: 'x', modifiedAt: 0 }] },
  );
  assert.equal(
    JSON.stringify(shown),
    '{"bucket_name":"demo","visibility":"restricted","allowed_users":["bob"],"owner":"alice",' +
      '"metadata":{"from_service":"svc","owner":"alice","owner_name":"Alice"},' +
      '"objects":[{"object_name":"in/a","size_bytes":12,"last_modified":"1970-01-01 00:00:00 +0000 UTC"}],' +
      '"storage_quota":{"source":"unset"},"storage_usage":{"used":"12","used_bytes":12,"objects":2},"attribution":"complete"}',
  );
});
