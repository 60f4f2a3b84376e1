import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Version } from '../../lib/version.ts';
import type { Service } from '../../model/service/index.ts';
import { RESERVATION_LIFETIME, type ServiceRecord, type ServiceStore } from '../service-store.ts';
import { onlyOneWon } from './only-one-won.ts';
import { revealed, sampleService } from './sample-service.ts';
import { describeLists } from './service-store-lists.conformance.ts';
import { created, reserved, type ServiceStoreUnderTest, type StartStore } from './service-store-under-test.ts';
import { describeWatch } from './service-store-watch.conformance.ts';

/** Concurrent calls per race test: enough that they overlap at every step. */
const CROWD = 20;

/** The guarantees of every {@link ServiceStore}. */
export function describeServiceStore(name: string, make: () => Promise<ServiceStoreUnderTest>): void {
  const start: StartStore = async (t) => {
    const made = await make();
    t.after(() => made.close());
    return made;
  };
  describe(`${name} as a ServiceStore`, () => {
    describeNamespaces(start);
    describeReservations(start);
    describeWrites(start);
    describeValues(start);
    describeLists(start);
    describeWatch(start);
  });
}

function describeNamespaces(start: StartStore): void {
  test('claimNamespace: an owner always gets the same namespace, and services can be created there', async (t) => {
    const { store } = await start(t);
    const namespace = await store.claimNamespace('alice', 'home-of-alice');
    assert.equal(await store.claimNamespace('alice', 'home-of-alice'), namespace);
    const { service } = await created(store, sampleService('cow', { namespace }));
    assert.equal(service.namespace, namespace);
    assert.equal((await store.get('cow'))?.service.namespace, namespace);
  });
}

function describeReservations(start: StartStore): void {
  test('reserve: a reserved name is taken, and has no service yet', async (t) => {
    const { store } = await start(t);
    assert.deepEqual({ ...(await reserved(store, 'cow', 'u1')) }, { name: 'cow', uid: 'u1' });
    assert.equal(await store.reserve('cow', 'u2'), 'taken');
    assert.equal(await store.get('cow'), undefined);
  });

  test('reserve: of concurrent reservations of one name, one succeeds', async (t) => {
    const { store } = await start(t);
    const answers = await Promise.all(Array.from({ length: CROWD }, (_, i) => store.reserve('cow', `u${i}`)));
    assert.equal(answers.filter((answer) => answer !== 'taken').length, 1);
  });

  test('reserve: the name of a service is taken', async (t) => {
    const { store } = await start(t);
    await created(store, sampleService('cow'));
    assert.equal(await store.reserve('cow', 'another'), 'taken');
  });

  test('release: a released name is free', async (t) => {
    const { store } = await start(t);
    await store.release(await reserved(store, 'cow', 'u1'));
    await reserved(store, 'cow', 'u2');
  });

  test('create: a released reservation is rejected', async (t) => {
    const { store } = await start(t);
    const service = sampleService('cow');
    const reservation = await reserved(store, 'cow', service.uid);
    await store.release(reservation);
    await assert.rejects(store.create(reservation, service), { code: 'conflict' });
    assert.equal(await store.get('cow'), undefined);
  });

  test('create: of concurrent creates with one reservation, one succeeds', async (t) => {
    const { store } = await start(t);
    const service = sampleService('cow');
    const reservation = await reserved(store, 'cow', service.uid);
    const attempts = await Promise.allSettled(Array.from({ length: CROWD }, () => store.create(reservation, service)));
    onlyOneWon(attempts, 'conflict');
  });

  test('create: a reservation is valid for one name and one uid', async (t) => {
    const { store } = await start(t);
    const reservation = await reserved(store, 'cow', 'u1');
    await assert.rejects(store.create(reservation, sampleService('cow', { uid: 'u2' })), { code: 'conflict' });
    await assert.rejects(store.create(reservation, sampleService('dog', { uid: 'u1' })), { code: 'conflict' });
    await store.create(reservation, sampleService('cow', { uid: 'u1' }));
  });

  test('release: is a no-op after the service was created', async (t) => {
    const { store } = await start(t);
    const service = sampleService('cow');
    const reservation = await reserved(store, 'cow', service.uid);
    await store.create(reservation, service);
    await store.release(reservation);
    assert.equal(await store.reserve('cow', 'another'), 'taken');
    assert.ok(await store.get('cow'));
  });

  test('reserve: a reservation is kept for its lifetime', async (t) => {
    const { store, advance } = await start(t);
    if (!advance) return t.skip('the clock of this store cannot be moved');
    await reserved(store, 'cow', 'u1');
    await advance(RESERVATION_LIFETIME - 1_000);
    assert.equal(await store.reserve('cow', 'u2'), 'taken');
  });

  test('reserve: of concurrent calls, one takes over an expired reservation, which can then create no service', async (t) => {
    const { store, advance } = await start(t);
    if (!advance) return t.skip('the clock of this store cannot be moved');
    const old = await reserved(store, 'cow', 'old');
    await advance(RESERVATION_LIFETIME + 1_000);
    const answers = await Promise.all(Array.from({ length: CROWD }, (_, i) => store.reserve('cow', `new-${i}`)));
    const winners = answers.filter((answer) => answer !== 'taken');
    assert.equal(winners.length, 1);
    await assert.rejects(store.create(old, sampleService('cow', { uid: 'old' })), { code: 'conflict' });
    const [winner] = winners;
    assert.ok(winner);
    await store.create(winner, sampleService('cow', { uid: winner.uid }));
  });

  test('release: an expired reservation does not release the one that replaced it', async (t) => {
    const { store, advance } = await start(t);
    if (!advance) return t.skip('the clock of this store cannot be moved');
    const old = await reserved(store, 'cow', 'old');
    await advance(RESERVATION_LIFETIME + 1_000);
    const current = await reserved(store, 'cow', 'new');
    await store.release(old);
    assert.equal(await store.reserve('cow', 'third'), 'taken');
    await store.create(current, sampleService('cow', { uid: 'new' }));
  });
}

function describeWrites(start: StartStore): void {
  test('get: returns the last write', async (t) => {
    const { store } = await start(t);
    const first = await created(store, sampleService('cow'));
    assert.deepEqual(await seen(store), { version: first.version, cpu: '0.2' });
    const second = await store.replace(sampleService('cow', { definition: { cpu: '2' } }), first.version);
    assert.deepEqual(await seen(store), { version: second.version, cpu: '2' });
    await store.remove('cow', second.version);
    assert.equal(await seen(store), undefined);
  });

  test('replace: the federation role of a service is stored, updated and removed', async (t) => {
    const { store } = await start(t);
    const worker = {
      role: 'worker',
      uid: 'f-1',
      revision: 3,
      keyId: 'k-1',
      digest: 'd-1',
      origin: { clusterId: 'a', service: 'cow', endpoint: 'https://a.example', store: 'https://s.example' },
      adopted: false,
    } as const;
    const { version } = await created(store, sampleService('cow', { federation: worker }));
    assert.deepEqual((await store.get('cow'))?.service.federation, worker);
    const next = await store.replace(sampleService('cow', { federation: { ...worker, revision: 4 } }), version);
    assert.deepEqual((await store.get('cow'))?.service.federation, { ...worker, revision: 4 });
    await store.replace(sampleService('cow'), next.version);
    assert.equal((await store.get('cow'))?.service.federation, undefined);
  });

  test('create: returns the record as get returns it', async (t) => {
    const { store } = await start(t);
    const service = sampleService('cow', { token: 't0ken' });
    const written = await created(store, service);
    assert.deepEqual(revealed(written.service), revealed(service));
    const read = await store.get('cow');
    assert.ok(read);
    assert.deepEqual({ ...read, service: revealed(read.service) }, { ...written, service: revealed(written.service) });
  });

  test('records are deeply frozen, and the arguments of the caller are not', async (t) => {
    const { store } = await start(t);
    const given = sampleService('cow');
    const { service } = await created(store, given);
    assert.equal(Object.isFrozen(given.definition), false);
    assert.ok(
      [service, service.definition, service.definition.input, service.definition.labels].every(Object.isFrozen),
    );
  });

  test('versions are never repeated, also when a name is used again', async (t) => {
    const { store } = await start(t);
    const versions: Version[] = [];
    for (const uid of ['u1', 'u2', 'u3']) {
      const service = sampleService('cow', { uid });
      const first = await created(store, service);
      const second = await store.replace(service, first.version);
      await store.remove('cow', second.version);
      versions.push(first.version, second.version);
    }
    assert.equal(new Set(versions).size, versions.length);
  });

  test('replace: of concurrent replacements of one version, one succeeds', async (t) => {
    const { store } = await start(t);
    const { version } = await created(store, sampleService('cow'));
    const attempts = await Promise.allSettled(
      Array.from({ length: CROWD }, (_, i) =>
        store.replace(sampleService('cow', { definition: { cpu: String(i) } }), version),
      ),
    );
    const winner = onlyOneWon(attempts, 'conflict');
    assert.deepEqual(await seen(store), { version: winner.version, cpu: winner.service.definition.cpu });
  });

  test('replace: of a concurrent replacement and removal of one version, one succeeds', async (t) => {
    const { store } = await start(t);
    const { version } = await created(store, sampleService('cow'));
    const [replaced, removed] = await Promise.allSettled([
      store.replace(sampleService('cow'), version),
      store.remove('cow', version),
    ]);
    assert.notEqual(replaced.status, removed.status);
    assert.equal((await store.get('cow')) !== undefined, replaced.status === 'fulfilled');
  });

  test('replace, remove: a service that does not exist is rejected as absent', async (t) => {
    const { store } = await start(t);
    const { version } = await created(store, sampleService('cow'));
    await store.remove('cow', version);
    await assert.rejects(store.replace(sampleService('cow'), version), { code: 'absent' });
    await assert.rejects(store.remove('cow', version), { code: 'absent' });
  });

  test('replace, remove: a version from before the name was used again conflicts', async (t) => {
    const { store } = await start(t);
    const { version } = await created(store, sampleService('cow', { uid: 'u1' }));
    await store.remove('cow', version);
    const again = await created(store, sampleService('cow', { uid: 'u2' }));
    await assert.rejects(store.replace(sampleService('cow', { uid: 'u2' }), version), { code: 'conflict' });
    await assert.rejects(store.remove('cow', version), { code: 'conflict' });
    assert.equal((await store.get('cow'))?.version, again.version);
  });

  test('replace: a change of the uid or the namespace is rejected', async (t) => {
    const { store } = await start(t);
    const { version } = await created(store, sampleService('cow'));
    await assert.rejects(store.replace(sampleService('cow', { uid: 'another' }), version), { code: 'conflict' });
    await assert.rejects(store.replace(sampleService('cow', { namespace: 'another' }), version), { code: 'conflict' });
    assert.equal((await store.get('cow'))?.version, version);
  });

  test('remove: frees the name', async (t) => {
    const { store } = await start(t);
    const { version } = await created(store, sampleService('cow'));
    await store.remove('cow', version);
    await created(store, sampleService('cow', { uid: 'u2', namespace: 'elsewhere' }));
    assert.equal((await store.get('cow'))?.service.namespace, 'elsewhere');
  });

  test('getFresh and fresh lists return the last write', async (t) => {
    const { store } = await start(t);
    const record = await created(store, sampleService('a'));
    assert.deepEqual(await store.getFresh('a'), record);
    const names = async () => (await store.list({ fresh: true })).items.map(({ service }) => service.definition.name);
    assert.deepEqual(await names(), ['a']);
    await store.remove('a', record.version);
    assert.equal(await store.getFresh('a'), undefined);
    assert.deepEqual(await names(), []);
  });

  test('get: an unused name is undefined', async (t) => {
    const { store } = await start(t);
    assert.equal(await store.get('cow'), undefined);
    assert.equal(await store.get('__proto__'), undefined);
  });
}

function describeValues(start: StartStore): void {
  const odd = JSON.parse('{"__proto__":"polluted","constructor":"c","":"no name","ключ":"🐄 \\"","a=b":"x\\ny"}');
  // A definition has the names of secrets and never their values.
  const blank = Object.fromEntries(Object.keys(odd).map((name) => [name, '']));
  const cases: Record<string, Service> = {
    'maps with odd keys and values': sampleService('cow', {
      definition: { labels: odd, annotations: odd, environment: { variables: odd, secrets: blank } },
    }),
    'long scripts': sampleService('cow', { definition: { script: 'echo "moo" 🐄\n'.repeat(60_000) } }),
    'empty strings': sampleService('cow', {
      token: '',
      owner: '',
      ownerName: '',
      definition: { image: '', script: '', input: [{ storage_provider: '', path: '' }] },
    }),
    'owners as issuers name them': sampleService('cow', {
      owner: "auth0|Zoë O'Brien <zoë@例え.jp>",
      ownerName: '🐄"\\',
    }),
  };
  for (const [name, service] of Object.entries(cases)) {
    test(`${name} are read back unchanged`, async (t) => {
      const { store } = await start(t);
      const { version } = await created(store, service);
      assert.deepEqual(revealed((await get(store, 'cow')).service), revealed(service));
      await store.replace(service, version);
      assert.deepEqual(revealed((await get(store, 'cow')).service), revealed(service));
    });
  }
}

async function get(store: ServiceStore, name: string): Promise<ServiceRecord> {
  const record = await store.get(name);
  assert.ok(record, `there is no ${name}`);
  return record;
}

async function seen(store: ServiceStore): Promise<{ version: Version; cpu: string } | undefined> {
  const record = await store.get('cow');
  return record && { version: record.version, cpu: record.service.definition.cpu };
}
