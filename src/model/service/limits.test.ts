import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { countReads } from '../../lib/counted-reads.fixture.ts';
import { decode, decodeStored, type Problem } from './codec.ts';
import { MAX_ALLOWED_USERS, MAX_FOLDERS, MAX_MAP_ENTRIES, MAX_MEMBERS, MAX_STORAGE_PATHS } from './limits.ts';
import { readDefinition } from './read.ts';
import { ServiceSchema } from './schema.ts';
import { aService } from './service.fixture.ts';
import { loopProblems, outputFolders } from './storage.ts';

const least = { name: 'demo', image: 'ubuntu', script: 'echo' };
const list = <T>(length: number, entry: (index: number) => T) => Array.from({ length }, (_, index) => entry(index));
const place = (path: string) => ({ storage_provider: 'minio.default', path });
const member = (index: number) => ({ cluster_id: `c${index}`, service_name: 'demo' });

describe('limits: a list that is too long is rejected before its entries are read', () => {
  const long = 20_000;
  const cases: [string, number, (entries: unknown) => Record<string, unknown>, (index: number) => object][] = [
    ['federation.members', MAX_MEMBERS, (members) => ({ federation: { members } }), member],
    ['input', MAX_STORAGE_PATHS, (input) => ({ input }), (index) => place(`in/${index}`)],
    ['output', MAX_STORAGE_PATHS, (output) => ({ output }), (index) => place(`out/${index}`)],
  ];
  for (const [path, most, body, entry] of cases) {
    test(path, () => {
      const read = (length: number) => {
        const { list: entries, reads } = countReads(list(length, entry));
        const refusal = `${path}: has ${length} entries, and at most ${most} are allowed`;
        assert.throws(
          () => readDefinition({ ...least, ...body(entries) }),
          (error: Error) => error.message.split('\n').includes(refusal),
        );
        return reads();
      };
      assert.equal(read(long), read(2 * long), 'twice as many entries are read no further');
    });
  }

  test('allowed_users', () => {
    const allowed_users = list(MAX_ALLOWED_USERS + 1, (index) => `user-${index}`);
    assert.throws(
      () => readDefinition({ ...least, allowed_users }),
      /^ServiceError: allowed_users: has 5001 entries, and at/,
    );
    assert.equal(
      readDefinition({ ...least, allowed_users: allowed_users.slice(1) }).definition.allowed_users.length,
      MAX_ALLOWED_USERS,
    );
  });

  test('filters of an output', () => {
    const output = [{ ...place('out/x'), suffix: list(MAX_STORAGE_PATHS + 1, String) }];
    assert.throws(() => readDefinition({ ...least, output }), /output\[0\]\.suffix: has 101 entries/);
  });
});

describe('limits: every list and map of the definition has one', () => {
  interface Shape {
    readonly type: string;
    readonly properties?: Record<string, Shape>;
    readonly patternProperties?: Record<string, Shape>;
    readonly items?: Shape;
    readonly maxItems?: number;
    readonly maxProperties?: number;
  }
  const unlimited = (shape: Shape, path: string): string[] => {
    const inside = [...Object.entries(shape.properties ?? {}), ...Object.entries(shape.patternProperties ?? {})];
    const own =
      (shape.type === 'array' && shape.maxItems === undefined) ||
      (shape.patternProperties && shape.maxProperties === undefined);
    return [
      ...(own ? [path] : []),
      ...inside.flatMap(([name, each]) => unlimited(each, `${path}.${name}`)),
      ...(shape.items ? unlimited(shape.items, `${path}[]`) : []),
    ];
  };
  test('in the schema', () => {
    assert.deepEqual(unlimited(ServiceSchema as unknown as Shape, ''), []);
  });

  test('a map that is too long is rejected, and only its first entries are read', () => {
    const variables = Object.fromEntries(list(60_000, (index) => [`no name ${index}`, 'x']));
    assert.throws(
      () => readDefinition({ ...least, environment: { variables } }),
      /environment\.variables: has 60000 entries, and at most 1000 are allowed\n/,
    );
    const decoded: Problem[] = [];
    decode(
      ServiceSchema,
      { environment: { variables: Object.fromEntries(Object.keys(variables).map((name) => [name, 7])) } },
      decoded,
    );
    assert.equal(decoded.length, 1 + MAX_MAP_ENTRIES);
    const most = Object.fromEntries(list(MAX_MAP_ENTRIES, (index) => [`NAME_${index}`, 'x']));
    readDefinition({ ...least, environment: { variables: most, secrets: most }, labels: most, annotations: most });
  });
});

test('limits: a stored definition keeps all its entries', () => {
  const stored = { ...least, input: list(MAX_STORAGE_PATHS + 50, (index) => place(`in/${index}`)) };
  assert.equal((decodeStored(ServiceSchema, stored) as { input: unknown[] }).input.length, MAX_STORAGE_PATHS + 50);
});

describe('limits: the folders of isolation USER', () => {
  const define = (users: number, inputs: number, outputs: number) => ({
    ...least,
    isolation_level: 'USER',
    visibility: 'restricted',
    allowed_users: list(users, (index) => `user-${index}`),
    input: list(inputs, (index) => place(`bucket-${index}/in`)),
    output: list(outputs, (index) => place(`results/${index}`)),
  });

  test('are counted before they are created', () => {
    // 99 users with 10 folders each for inputs, and 9 outputs beside each of 10 inputs.
    readDefinition(define(99, 10, 9));
    assert.throws(
      () => readDefinition(define(100, 10, 9)),
      new RegExp(`isolation_level: gives each of 100 allowed users .* 10019 in all, and at most ${MAX_FOLDERS}`),
    );
  });

  test('are not computed without isolation', () => {
    const { list: input, reads } = countReads(list(MAX_STORAGE_PATHS, (index) => place(`bucket-${index}/in`)));
    const service = aService({ output: list(MAX_STORAGE_PATHS, (index) => place(`out/${index}`)) });
    outputFolders({ ...service, definition: { ...service.definition, input } });
    assert.equal(reads(), 0);
  });
});

test('limits: the loop check does not compare every input with every output', () => {
  const compare = (length: number) => {
    const { list: input, reads } = countReads(list(length, (index) => place(`bucket/in-${index}`)));
    const output = countReads(list(length, (index) => place(`bucket/out-${index}`)));
    assert.deepEqual(loopProblems({ ...readDefinition(least).definition, input, output: output.list }), []);
    return reads() + output.reads();
  };
  const [some, twice] = [compare(50), compare(100)];
  assert.ok(twice <= 2 * some, `${some} reads for 50 of each, ${twice} for 100`);
});
