import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { FederationRole } from '../../model/service/index.ts';
import { aService } from '../../model/service/service.fixture.ts';
import { federationGuard, type WorkerAction } from './worker-role.ts';

const worker: FederationRole = {
  role: 'worker',
  uid: 'u',
  revision: 1,
  keyId: 'k',
  digest: 'd',
  adopted: false,
  origin: { clusterId: 'a', service: 'origin', endpoint: 'https://a.example', store: '' },
};
const coordinator: FederationRole = { role: 'coordinator', uid: 'u', revision: 1, committed: true };

test('role: a coordinator accepts no jobs before its members are created', () => {
  const service = { ...aService(), federation: { ...coordinator, committed: false } };
  assert.equal(federationGuard(service, 'invoke')?.code, 'origin-away');
  assert.equal(federationGuard(service, 'delete'), undefined);
});

const cases: [string, FederationRole | undefined, WorkerAction, RegExp | undefined][] = [
  ['an ordinary service is changed', undefined, 'update', undefined],
  ['an ordinary service is invoked', undefined, 'invoke', undefined],
  ['the coordinator is changed', coordinator, 'update', undefined],
  ['the coordinator has its members changed', coordinator, 'change-members', undefined],
  ['a worker is read', worker, 'read', undefined],
  ['a worker is deleted by its owner', worker, 'delete', undefined],
  ['a worker is not changed', worker, 'update', /change "origin" at https:\/\/a\.example/],
  ['a worker has no members to change', worker, 'change-members', /change "origin" at https:\/\/a\.example/],
  ['a worker is not invoked', worker, 'invoke', /invoke "origin" at https:\/\/a\.example/],
];
for (const [name, federation, action, message] of cases) {
  test(name, () => {
    const refusal = federationGuard({ ...aService(), ...(federation && { federation }) }, action);
    if (!message) assert.equal(refusal, undefined);
    else {
      assert.equal(refusal?.code, 'not-the-coordinator');
      assert.match(refusal.message, message);
    }
  });
}
