import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { serviceBodies } from '../../model/service/service.arbitrary.ts';
import { hideSecrets } from './hide.ts';

const SECRET = 'do-not-show';

/** The same, with every text that is a secret replaced by one that can be looked for. */
function marked(body: Record<string, unknown>): object {
  const { environment, storage_providers, clusters, federation } = body as Record<string, Record<string, object>>;
  const all = (map: object = {}) => Object.fromEntries(Object.keys(map).map((key) => [key, SECRET]));
  const each = (map: object = {}, more: object) =>
    Object.fromEntries(Object.entries(map).map(([key, value]) => [key, { ...(value as object), ...more }]));
  const members = (federation?.['members'] ?? []) as { headers?: object }[];
  return {
    ...body,
    token: SECRET,
    environment: { ...environment, secrets: { ...all(environment?.['secrets']), refresh_token: SECRET } },
    storage_providers: {
      minio: each(storage_providers?.['minio'], { access_key: SECRET, secret_key: SECRET }),
      webdav: each(storage_providers?.['webdav'], { password: SECRET }),
      onedata: { x: { token: SECRET } },
    },
    clusters: each(clusters, { auth_password: SECRET }),
    federation: {
      ...federation,
      members: members.map((member) => ({ ...member, headers: { authorization: SECRET } })),
    },
  };
}

test('secrets: none is printed, for any definition', () => {
  fc.assert(
    fc.property(serviceBodies, (body) => {
      assert.ok(!JSON.stringify(hideSecrets([marked(body)])).includes(SECRET));
    }),
    { numRuns: 50 },
  );
});

test('secrets: other values and empty secrets stay', () => {
  const body = { name: 'token', environment: { variables: { A: 'b' }, secrets: { C: '' } }, token: '' };
  assert.deepEqual(hideSecrets(body), body);
});
