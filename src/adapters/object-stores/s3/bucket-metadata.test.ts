import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { parseBucketTags, toBucketTags } from './bucket-metadata.ts';

describe('bucket tags:', () => {
  test('are those of the Go manager, plus the uid of the service', () => {
    const madeFor = { uid: 'uid-1', service: 'svc' };
    assert.deepEqual(toBucketTags({ owner: 'a@egi.eu', ownerName: 'Alice', madeFor }, 'oscar'), {
      owner: 'a@egi.eu',
      owner_name: 'Alice',
      from_service: 'svc',
      oscar_service_uid: 'uid-1',
    });
  });

  test('name the manager or no owner for a bucket of the administrator', () => {
    const admins = { owner: 'cluster_admin', ownerName: 'oscar' };
    assert.equal(toBucketTags(admins, 'oscar')['owner'], 'oscar');
    assert.equal(toBucketTags({ ...admins, madeFor: { uid: 'u', service: 's' } }, 'oscar')['owner'], '');
    for (const tags of [{}, { owner: '' }, { owner: 'oscar' }]) {
      assert.equal(parseBucketTags(tags, 'oscar').owner, 'cluster_admin');
    }
  });

  test('of a Go manager are parsed without the uid of a service', () => {
    const tags = { owner: 'alice', owner_name: 'Alice', from_service: 'svc' };
    assert.deepEqual(parseBucketTags(tags, 'oscar'), { owner: 'alice', ownerName: 'Alice' });
  });

  test('encode any uid in the characters that the store accepts', () => {
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
