import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ApiError, ConnectionError, findRejection, toStoreError } from './api-error.ts';

for (const { name, status, message, final } of [
  { name: 'an invalid object is final', status: 422, message: 'Pod "x" is invalid', final: true },
  { name: 'a missing namespace is final', status: 404, message: 'namespaces "x" not found', final: true },
  {
    name: 'an exceeded quota is not final',
    status: 403,
    message: 'pods "x" is forbidden: exceeded quota: q, requested: pods=1',
    final: false,
  },
  {
    name: 'a missing permission is not final',
    status: 403,
    message: 'pods is forbidden: User "u" cannot create resource "pods" in API group ""',
    final: false,
  },
  {
    name: 'a policy violation is final',
    status: 403,
    message: 'pods "x" is forbidden: violates PodSecurity "restricted:latest"',
    final: true,
  },
]) {
  test(`rejection: ${name}`, () =>
    assert.deepEqual(findRejection(toStoreError(new ApiError(status, { message }), 'x')), { message, final }));
}

test('rejection: an unavailable server has rejected nothing', () => {
  assert.equal(findRejection(toStoreError(new ConnectionError(true, 'cut'), 'x')), undefined);
  assert.equal(findRejection(toStoreError(new ApiError(503, {}), 'x')), undefined);
});
