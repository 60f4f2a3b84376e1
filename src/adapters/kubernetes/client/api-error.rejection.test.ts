import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ApiError, ConnectionError, findRejection, toStoreError } from './api-error.ts';

for (const { name, status, message, final } of [
  { name: 'a pod that makes no sense never will', status: 422, message: 'Pod "x" is invalid', final: true },
  { name: 'nor one in a namespace that is gone', status: 404, message: 'namespaces "x" not found', final: true },
  {
    name: 'a quota has room again when others have ended',
    status: 403,
    message: 'pods "x" is forbidden: exceeded quota: q, requested: pods=1',
    final: false,
  },
  {
    name: 'a right that is missing can be given',
    status: 403,
    message: 'pods is forbidden: User "u" cannot create resource "pods" in API group ""',
    final: false,
  },
  {
    name: 'what a policy forbids stays forbidden',
    status: 403,
    message: 'pods "x" is forbidden: violates PodSecurity "restricted:latest"',
    final: true,
  },
]) {
  test(name, () =>
    assert.deepEqual(findRejection(toStoreError(new ApiError(status, { message }), 'x')), { message, final }),
  );
}

test('a server that is away has refused nothing', () => {
  assert.equal(findRejection(toStoreError(new ConnectionError(true, 'cut'), 'x')), undefined);
  assert.equal(findRejection(toStoreError(new ApiError(503, {}), 'x')), undefined);
});
