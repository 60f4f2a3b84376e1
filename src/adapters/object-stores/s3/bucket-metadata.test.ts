import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { parseBucketTags, toBucketTags } from './bucket-metadata.ts';

describe('the tags of a bucket', () => {
  test('are those of the Go manager, and the uid of the service', () => {
    const madeFor = { uid: 'uid-1', service: 'svc' };
    assert.deepEqual(toBucketTags({ owner: 'a@egi.eu', ownerName: 'Alice', madeFor }, 'oscar'), {
      owner: 'a@egi.eu',
      owner_name: 'Alice',
      from_service: 'svc',
      oscar_service_uid: 'uid-1',
    });
  });

  test('name the manager, or nobody, where the administrator is the owner', () => {
    const admins = { owner: 'cluster_admin', ownerName: 'oscar' };
    assert.equal(toBucketTags(admins, 'oscar')['owner'], 'oscar');
    assert.equal(toBucketTags({ ...admins, madeFor: { uid: 'u', service: 's' } }, 'oscar')['owner'], '');
    for (const tags of [{}, { owner: '' }, { owner: 'oscar' }]) {
      assert.equal(parseBucketTags(tags, 'oscar').owner, 'cluster_admin');
    }
  });

  test('of a Go manager are read, without a service that could be known by its uid', () => {
    const tags = { owner: 'alice', owner_name: 'Alice', from_service: 'svc' };
    assert.deepEqual(parseBucketTags(tags, 'oscar'), { owner: 'alice', ownerName: 'Alice' });
  });

  test('hold whatever a uid is made of, in the characters that the store takes', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', minLength: 1 }), fc.string({ unit: 'binary' }), (name, ownerName) => {
        const owner = Buffer.from(name).toString();
        fc.pre(owner !== 'cluster_admin' && owner !== 'oscar');
        const tagged = { owner, ownerName: Buffer.from(ownerName).toString() };
        const tags = toBucketTags(tagged, 'oscar');
        for (const value of Object.values(tags)) assert.match(value, /^[A-Za-z0-9 +\-=._:/@]*$/);
        assert.deepEqual(parseBucketTags(tags, 'oscar'), tagged);
      }),
    );
  });
});
