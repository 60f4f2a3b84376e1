import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { countReads } from '../lib/counted-reads.fixture.ts';
import { Secret } from '../lib/secret.ts';
import { type Replica, readDefinition, type ServiceDocument } from '../model/service/index.ts';
import { serviceBodies } from '../model/service/service.arbitrary.ts';
import {
  definitionDigest,
  expandToWorkers,
  type FederatedDefinition,
  memberKey,
  memberProblems,
  serializeWorker,
} from './topology.ts';

const STORE = { endpoint: 'https://store.origin.example', verify: true, region: 'us-east-1' };
const TOKEN = 'the-refresh-token';

interface Given {
  readonly members: readonly Partial<Replica>[];
  readonly topology?: string;
  readonly body?: Record<string, unknown>;
}

function federated({ members, topology = 'star', body = {} }: Given): FederatedDefinition {
  const { definition, secrets } = readDefinition({
    image: 'busybox',
    script: 'true',
    ...body,
    name: 'origin',
    cluster_id: 'here',
    federation: { topology, members },
    environment: { variables: {}, secrets: { refresh_token: TOKEN, PASSWORD: 'pw-value' } },
    clusters: { a: { endpoint: 'https://a.example', auth_user: 'admin', auth_password: 'cluster-password' } },
    storage_providers: {
      minio: {
        archive: { endpoint: 'https://archive.example', access_key: 'ARCHIVE-KEY', secret_key: 'ARCHIVE-SECRET' },
      },
      s3: { cloud: { access_key: 'CLOUD-KEY', secret_key: 'CLOUD-SECRET', region: 'eu' } },
      webdav: { lab: { hostname: 'dav.example', login: 'me', password: 'DAV-PASSWORD' } },
    },
  });
  const ids = [...new Set(members.map(({ cluster_id = '' }) => cluster_id))].filter((id) => id !== '');
  return {
    definition,
    secrets: secrets.environment,
    uid: 'federation-uid',
    revision: 3,
    origin: { clusterId: 'here', endpoint: 'https://here.example', store: STORE },
    clusters: new Map(ids.map((id) => [id, { endpoint: `https://${id}.example`, ssl_verify: true }])),
  };
}

const oscar = (cluster_id: string, service_name: string, more: Partial<Replica> = {}) => ({
  cluster_id,
  service_name,
  ...more,
});
const word = fc.stringMatching(/^[a-z][a-z0-9]{2,8}$/);
const member = fc.record({
  cluster_id: word,
  service_name: word,
  priority: fc.nat(200),
  headers: fc.constant({ 'X-Key': 'header-secret' }),
});
const memberSet = fc.uniqueArray(member, {
  maxLength: 6,
  selector: ({ cluster_id, service_name }) => `${cluster_id}/${service_name}`,
});
const anything = fc.record({
  members: memberSet,
  topology: fc.constantFrom('none', 'star', 'tree', 'MESH', 'mesh'),
  body: serviceBodies,
});

test('topology: each member gets one worker with its name and cluster; without members there is none', () => {
  fc.assert(
    fc.property(anything, (given) => {
      const workers = expandToWorkers(federated(given));
      assert.deepEqual(
        workers.map(({ document: { name, cluster_id } }) => [name, cluster_id]),
        given.members.map(({ service_name, cluster_id }) => [service_name, cluster_id]),
      );
    }),
  );
});

test('topology: in a mesh every service lists exactly the others, the coordinator first with priority 0; in a star none', () => {
  fc.assert(
    fc.property(anything, (given) => {
      const mesh = given.topology.toLowerCase() === 'mesh';
      for (const { member: self, document } of expandToWorkers(federated(given))) {
        const listed = document.federation?.members ?? [];
        if (!mesh) {
          assert.deepEqual(listed, []);
          continue;
        }
        assert.deepEqual([listed[0]?.cluster_id, listed[0]?.service_name, listed[0]?.priority], ['here', 'origin', 0]);
        const others = given.members.filter((each) => memberKey({ ...self, ...each }) !== memberKey(self));
        assert.deepEqual(
          listed.slice(1).map(({ cluster_id, service_name, priority }) => [cluster_id, service_name, priority]),
          others.map(({ cluster_id, service_name, priority }) => [cluster_id, service_name, priority]),
        );
      }
    }),
  );
});

test('topology: no worker is sent its owner, a token or a key; it is sent the values of ordinary secrets (F20, F33, F36, F47)', () => {
  fc.assert(
    fc.property(anything, (given) => {
      for (const worker of expandToWorkers(federated(given))) {
        const body = serializeWorker(worker);
        for (const secret of [
          TOKEN,
          'cluster-password',
          'ARCHIVE-',
          'CLOUD-KEY',
          'CLOUD-SECRET',
          'DAV-',
          'header-secret',
          'refresh_token',
        ]) {
          assert.ok(!body.includes(secret), secret);
        }
        const sent = JSON.parse(body) as ServiceDocument;
        assert.deepEqual(sent.environment.secrets, { PASSWORD: 'pw-value' });
        assert.equal(sent.owner, '');
        assert.equal(sent.token, '');
        assert.equal('namespace' in sent, false);
        assert.deepEqual(sent.storage_providers?.minio?.['default'], { ...STORE, access_key: '', secret_key: '' });
      }
    }),
  );
});

test('topology: no two definitions share an object, and none shares one with the coordinator (F19)', () => {
  const origin = federated({ members: [oscar('a', 'one'), oscar('b', 'two')], topology: 'mesh' });
  const before = JSON.stringify(origin.definition);
  const [one, two] = expandToWorkers(origin);
  assert.ok(one && two);
  scribble(one.document);
  scribble(one.member);
  assert.equal(JSON.stringify(origin.definition), before);
  assert.deepEqual(two, expandToWorkers(origin)[1]);
});

test('topology: expanding twice gives the same bytes, and a member that left and came back gives the same graph', () => {
  fc.assert(
    fc.property(anything, (given) => {
      const [once, again] = [expandToWorkers(federated(given)), expandToWorkers(federated(given))];
      assert.deepEqual(once.map(serializeWorker), again.map(serializeWorker));
      assert.deepEqual(once.map(definitionDigest), again.map(definitionDigest));
      const [gone, ...stayed] = given.members;
      if (!gone) return;
      const back = expandToWorkers(federated({ ...given, members: [...stayed, gone] }));
      const digests = (workers: typeof back) =>
        new Map(workers.map((worker) => [worker.document.name + worker.document.cluster_id, listedBy(worker)]));
      assert.deepEqual(digests(back), digests(once));
    }),
  );
});

test('topology: the digest changes with everything except the revision', () => {
  const given = { members: [oscar('a', 'one')] };
  const [worker] = expandToWorkers(federated(given));
  const [later] = expandToWorkers({ ...federated(given), revision: 9 });
  const [other] = expandToWorkers({ ...federated(given), secrets: { PASSWORD: new Secret('another') } });
  const [script] = expandToWorkers(federated({ ...given, body: { script: 'false' } }));
  assert.ok(worker && later && other && script);
  assert.equal(definitionDigest(worker), definitionDigest(later));
  assert.notEqual(serializeWorker(worker), serializeWorker(later));
  assert.notEqual(definitionDigest(worker), definitionDigest(other));
  assert.notEqual(definitionDigest(worker), definitionDigest(script));
});

test('topology: group, topology, policy and buckets of the origin stay as the user wrote them', () => {
  const output = [{ storage_provider: 'minio.default', path: 'results' }];
  const [worker] = expandToWorkers(federated({ members: [oscar('a', 'one')], topology: 'Tree', body: { output } }));
  assert.equal(worker?.document.federation?.group_id, 'origin');
  assert.equal(worker?.document.federation?.topology, 'Tree');
  assert.equal(worker?.document.output[0]?.path, 'origin/results');
  assert.equal(worker?.document.annotations['oscar.grycap/origin-service'], 'origin');
});

test('topology: an endpoint is a member, and nothing is deployed there (F18)', () => {
  const endpoint = { type: 'endpoint', url: 'https://any.example/hook' };
  const workers = expandToWorkers(federated({ members: [oscar('a', 'one'), endpoint], topology: 'mesh' }));
  assert.equal(workers.length, 1);
  assert.deepEqual(
    workers[0]?.document.federation?.members?.map(({ type }) => type),
    ['oscar', 'endpoint'],
  );
});

test('topology: the service itself, duplicates and too many members are rejected', () => {
  const { definition } = federated({ members: [oscar('here', 'origin'), oscar('here', 'other'), oscar('a', 'one')] });
  assert.deepEqual(memberProblems(definition, 'here', 2), [
    'federation.members: has 3 members, but this cluster allows at most 2 in one federation',
    'federation.members[0]: is the service itself: list services on other clusters',
  ]);
  assert.deepEqual(memberProblems(definition, 'there', 100), []);
  const twice = { ...definition, federation: { group_id: 'g', topology: 'star', members: [one(), one()] } };
  assert.deepEqual(memberProblems(twice, 'here', 100), ['federation.members[1]: is listed twice']);
});

const one = (): Replica => ({
  type: 'oscar',
  cluster_id: 'a',
  service_name: 'one',
  url: '',
  ssl_verify: false,
  priority: 0,
  headers: {},
});

const listedBy = ({ document }: ReturnType<typeof expandToWorkers>[number]) =>
  (document.federation?.members ?? [])
    .map(({ cluster_id, service_name }) => `${cluster_id}/${service_name}`)
    .toSorted();

/** Mutates every nested object and list. */
function scribble(value: unknown): void {
  if (typeof value !== 'object' || value === null) return;
  for (const inner of Object.values(value)) scribble(inner);
  if (Array.isArray(value)) value.push('scribbled');
  else (value as Record<string, unknown>)['scribbled'] = true;
}

test('members: duplicates are found without comparing each with each', () => {
  const cost = (length: number) => {
    const { definition } = federated({ members: [oscar('a', 'one')] });
    const { list, reads } = countReads(Array.from({ length }, (_, index) => ({ ...one(), cluster_id: `c${index}` })));
    const members = [...list, ...list];
    const given = { ...definition, federation: { group_id: 'g', topology: 'star', members } };
    const before = reads();
    assert.equal(memberProblems(given, 'here', 1_000).length, length);
    return reads() - before;
  };
  const [some, twice] = [cost(50), cost(100)];
  assert.ok(twice <= 2.1 * some, `${some} reads for 100 entries, ${twice} for 200`);
});
