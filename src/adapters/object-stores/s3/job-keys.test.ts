import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { sessionPolicy } from './job-keys.ts';

const statements = (policy: string) =>
  (JSON.parse(policy) as { Statement: { Effect: string; Action: string[]; Resource: string[] }[] }).Statement;

describe('session policy:', () => {
  const write = [{ bucket: 'b', prefix: 'out/' }];

  test('names each object, and each prefix with a wildcard', () => {
    const read = [{ bucket: 'b', key: 'in/a' }];
    const [reading, writing] = statements(sessionPolicy({ read, readUnder: [{ bucket: 'c', prefix: 'x/' }], write }));
    assert.deepEqual(reading, {
      Effect: 'Allow',
      Action: ['s3:GetObject'],
      Resource: ['arn:aws:s3:::b/in/a', 'arn:aws:s3:::c/x/*'],
    });
    assert.deepEqual(writing?.Resource, ['arn:aws:s3:::b/out/*']);
  });

  test('has no statement for an empty part of the scope', () => {
    assert.deepEqual(statements(sessionPolicy({ read: [], write })).length, 1);
  });

  test('replaces many objects by their prefix only where the scope allows writing anyway', () => {
    const many = (folder: string) =>
      Array.from({ length: 100 }, (_, i) => ({ bucket: 'b', key: `${folder}/a file ${i}` }));
    const inside = statements(sessionPolicy({ read: [{ bucket: 'b', key: 'in/a' }, ...many('out')], write }));
    assert.deepEqual(inside[0]?.Resource, ['arn:aws:s3:::b/in/a', 'arn:aws:s3:::b/out/*']);
    assert.throws(() => sessionPolicy({ read: many('in'), write }), { code: 'too-large' });
  });

  for (const [what, text] of [
    ['with characters of two bytes', 'é'],
    ['with characters of four bytes', '🐄'],
    ['with characters that the store escapes to six', '&'],
    ['with a Unicode line separator', '\u2028'],
  ] as const) {
    test(`measures names ${what} as the store does`, () => {
      const read = [{ bucket: 'b', key: `out/${text.repeat(900 / text.length)}` }];
      assert.deepEqual(statements(sessionPolicy({ read, write }))[0]?.Resource, ['arn:aws:s3:::b/out/*']);
    });
  }

  for (const key of ['a*', 'a?b', 'a${aws:username}', '${x}']) {
    test(`rejects "${key}", which a policy can only express as a pattern`, () => {
      const refused = { code: 'conflict', message: /pattern/ };
      assert.throws(() => sessionPolicy({ read: [{ bucket: 'b', key }], write: [] }), refused);
      assert.throws(() => sessionPolicy({ read: [], write: [{ bucket: 'b', prefix: key }] }), refused);
    });
  }

  test('contains a key with a dollar unchanged', () => {
    const [reading] = statements(sessionPolicy({ read: [{ bucket: 'b', key: 'in/5$ {x}' }], write: [] }));
    assert.deepEqual(reading?.Resource, ['arn:aws:s3:::b/in/5$ {x}']);
  });
});
