import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { makeTemporaryDirectory, removeTemporaryDirectory } from '../../../test/support/temporary-directory.ts';
import { Seal } from '../../lib/secret.ts';
import type { Version } from '../../lib/version.ts';
import { revealed, type Sample, sampleService } from '../../ports/conformance/sample-service.ts';
import {
  type IndexTerm,
  listAllPages,
  RESERVATION_LIFETIME,
  type ServiceRecord,
  StoreError,
  visibleTo,
  visibleToAll,
} from '../../ports/index.ts';
import { labelled } from '../../ports/service-store.ts';
import { Database, newVersion } from './database.ts';
import { LocalServiceStore } from './local-service-store.ts';
import { ModelStore, type Outcome } from './service-store-model.fixture.ts';

const RUNS = 20 * Number(process.env['OSCAR_TEST_ROUNDS'] ?? 5);

const NAMESPACES: Record<string, string> = { a: 'n', b: 'n-x', c: 'n0', d: 'n' };
const NAMES = Object.keys(NAMESPACES);
const TERMS = [visibleToAll, visibleTo('alice'), visibleTo('bob'), visibleTo('carol'), labelled('k', 'v')];
const VARIANTS: readonly Sample[] = [
  { owner: 'alice' },
  { owner: 'bob', token: 'another' },
  { owner: 'alice', definition: { visibility: 'public', labels: { k: 'v' } } },
  { owner: 'bob', definition: { visibility: 'restricted', allowed_users: ['alice', 'carol'] } },
];

interface Write {
  readonly verb: 'reserve' | 'release' | 'create' | 'replace' | 'remove';
  readonly name: string;
  readonly uid: string;
  readonly variant: Sample;
  /** Uses a version that never existed. */
  readonly lost: boolean;
}

/** Writes that start in the same turn, and what happens after them. */
interface Burst {
  readonly writes: readonly Write[];
  readonly afterwards: 'nothing' | 'restart' | 'wait';
  readonly anyOf: IndexTerm[];
  readonly limit: number;
}

const write: fc.Arbitrary<Write> = fc.record({
  verb: fc.constantFrom('reserve', 'reserve', 'release', 'create', 'create', 'create', 'replace', 'replace', 'remove'),
  name: fc.constantFrom(...NAMES),
  uid: fc.constantFrom('u1', 'u1', 'u1', 'u2'),
  variant: fc.constantFrom(...VARIANTS),
  lost: fc.constantFrom(false, false, false, true),
});

const burst: fc.Arbitrary<Burst> = fc.record({
  writes: fc.array(write, { maxLength: 8 }),
  afterwards: fc.constantFrom('nothing', 'nothing', 'restart', 'wait'),
  anyOf: fc.subarray(TERMS),
  limit: fc.integer({ min: 1, max: 3 }),
});

test('service store: random concurrent writes give the same results and records as a simple model', async () => {
  const bursts = fc.array(burst, { minLength: 5, maxLength: 30 });
  await fc.assert(
    fc.asyncProperty(bursts, (all) => compare(all)),
    { numRuns: RUNS },
  );
});

async function compare(bursts: readonly Burst[]): Promise<void> {
  const both = new Both();
  try {
    for (const { writes, afterwards, anyOf, limit } of bursts) {
      await both.write(writes);
      if (afterwards === 'restart') both.restart();
      if (afterwards === 'wait') both.now += RESERVATION_LIFETIME / 2;
      await both.assertAlike(anyOf, limit);
    }
  } finally {
    both.close();
  }
}

/** The store, the model, and the versions that a caller of both has read. */
class Both {
  now = 1_000_000;
  readonly #directory = makeTemporaryDirectory();
  readonly #seal = new Seal(randomBytes(32));
  readonly #model = new ModelStore();
  readonly #versions = new Map<string, Version>();
  readonly #everyVersion = new Set<Version>();
  #database = this.#open();
  #store = this.#openStore();

  async write(writes: readonly Write[]): Promise<void> {
    const expected = new Map(NAMES.map((name) => [name, this.#model.get(name)?.state]));
    // All writes start before any is awaited, and the store executes them in order, so the model can execute them one by one.
    const real = await Promise.all(writes.map((one) => this.#inStore(one)));
    const modelled = writes.map((one) => this.#inModel(one, expected.get(one.name)));
    assert.deepEqual(real, modelled);
  }

  async assertAlike(anyOf: IndexTerm[], limit: number): Promise<void> {
    for (const name of NAMES) {
      const record = await this.#store.get(name);
      assert.deepEqual(record && revealed(record.service), unseal(this.#model.get(name)));
      if (record) assert.equal(record.version, this.#versions.get(name));
    }
    assert.deepEqual(await this.#list({ limit }), this.#model.list().map(revealed));
    assert.deepEqual(await this.#list({ anyOf, limit }), this.#model.list(anyOf).map(revealed));
  }

  restart(): void {
    this.close(false);
    this.#database = this.#open();
    this.#store = this.#openStore();
  }

  close(forGood = true): void {
    this.#store.close();
    this.#database.close();
    if (forGood) removeTemporaryDirectory(this.#directory);
  }

  async #inStore({ verb, name, uid, variant, lost }: Write): Promise<string> {
    const service = sampleFor({ name, uid, variant });
    const expected = (!lost && this.#versions.get(name)) || newVersion();
    try {
      if (verb === 'reserve') return (await this.#store.reserve(name, uid)) === 'taken' ? 'taken' : 'done';
      if (verb === 'release') await this.#store.release({ name, uid });
      else if (verb === 'create') this.#learn(name, await this.#store.create({ name, uid }, service));
      else if (verb === 'replace') this.#learn(name, await this.#store.replace(service, expected));
      else await this.#store.remove(name, expected);
      return 'done';
    } catch (error) {
      if (error instanceof StoreError) return error.code;
      throw error;
    }
  }

  #inModel({ verb, name, uid, variant, lost }: Write, known: number | undefined): Outcome {
    const service = sampleFor({ name, uid, variant });
    const expected = lost ? undefined : known;
    if (verb === 'reserve') return this.#model.reserve(name, uid, this.now);
    if (verb === 'release') return this.#model.release(name, uid);
    if (verb === 'create') return this.#model.create(service);
    return verb === 'replace' ? this.#model.replace(service, expected) : this.#model.remove(name, expected);
  }

  #learn(name: string, { version }: ServiceRecord): void {
    assert.ok(!this.#everyVersion.has(version), 'a version was used twice');
    this.#everyVersion.add(version);
    this.#versions.set(name, version);
  }

  async #list(query: { anyOf?: IndexTerm[]; limit: number }) {
    const pages = await listAllPages((cursor) => this.#store.list({ ...query, ...(cursor && { cursor }) }));
    return pages.flat().map(({ service }) => revealed(service));
  }

  #open(): Database {
    return new Database(join(this.#directory, 'test.db'));
  }

  #openStore(): LocalServiceStore {
    const cache = { records: 2, characters: 1_000_000 };
    return new LocalServiceStore(this.#database, this.#seal, { now: () => this.now, cache });
  }
}

function sampleFor({ name, uid, variant }: Pick<Write, 'name' | 'uid' | 'variant'>) {
  return sampleService(name, { uid, namespace: NAMESPACES[name] ?? '', ...variant });
}

function unseal(held: ReturnType<ModelStore['get']>) {
  return held && revealed(held.service);
}
