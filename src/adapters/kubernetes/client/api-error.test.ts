import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StoreError } from '../../../ports/index.ts';
import { ApiError, ConnectionError, toStoreError } from './api-error.ts';

const forbidden =
  'secrets is forbidden: User "system:serviceaccount:oscar:oscar-sa" cannot create resource "secrets" in API group "" in the namespace "oscar-svc-1"';
const forbiddenEverywhere =
  'leases.coordination.k8s.io is forbidden: User "me" cannot list resource "leases" in API group "coordination.k8s.io" at the cluster scope';
const terminating = {
  reason: 'Forbidden',
  message: 'configmaps "x" is forbidden: unable to create new content in namespace gone because it is being terminated',
  details: { causes: [{ reason: 'NamespaceTerminating' }] },
};

const cases: [string, unknown, string, RegExp][] = [
  ['a lost connection', new ConnectionError(true, 'cut'), 'unavailable', /^the manager could not do it: cut$/],
  ['a missing object', new ApiError(404, { message: 'no such' }), 'absent', /no such/],
  ['another version', new ApiError(409, {}), 'conflict', /answered 409/],
  ['an expired version', new ApiError(410, {}), 'expired', /answered 410/],
  ['an object that is too large', new ApiError(413, {}), 'too-large', /answered 413/],
  ['a failing server', new ApiError(500, { message: 'etcd' }), 'unavailable', /etcd/],
  [
    'a missing permission',
    new ApiError(403, { message: forbidden }),
    'unavailable',
    /not allowed to do it: grant system:serviceaccount:oscar:oscar-sa the permission to "create" secrets in the namespace oscar-svc-1/,
  ],
  [
    'a missing permission in the whole cluster',
    new ApiError(403, { message: forbiddenEverywhere }),
    'unavailable',
    /the permission to "list" leases of coordination.k8s.io in the whole cluster/,
  ],
  [
    'a namespace that is being deleted',
    new ApiError(403, terminating),
    'unavailable',
    /the namespace gone is being deleted/,
  ],
];

for (const [name, error, code, message] of cases) {
  test(`API errors: ${name} becomes a StoreError with code ${code}`, () => {
    const known = toStoreError(error, 'do it');
    assert.ok(known instanceof StoreError);
    assert.equal(known.code, code);
    assert.match(known.message, message);
  });
}

test('API errors: a programming error is passed on unchanged', () => {
  const mistake = new TypeError('x');
  assert.equal(toStoreError(mistake, 'do it'), mistake);
});
