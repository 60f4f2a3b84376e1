import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Network } from '../../../lib/http/index.ts';
import { ROLE } from '../client/kinds.ts';
import { FakeApi } from '../runner/fake-api.fixture.ts';
import { Namespaces } from './namespaces.ts';
import { PullSecrets } from './pull-secrets.ts';

const CLOSED: Network[] = [
  { address: '169.254.169.254', prefix: 32, family: 'ipv4' },
  { address: 'fd00:ec2::254', prefix: 128, family: 'ipv6' },
];

const open = (server: FakeApi, closedNetworks: readonly Network[] = [], knative = false) =>
  new Namespaces(server.api, {
    manager: 'oscar',
    services: 'oscar-svc',
    controllerServiceAccount: 'oscar-sa',
    knative,
    kueue: false,
    closedNetworks,
    pullSecrets: new PullSecrets(server.api, {
      manager: 'oscar',
      names: [],
      report: (problem) => assert.fail(String(problem)),
    }),
  });

type Seen = { spec?: unknown; rules?: { apiGroups: string[]; resources: string[] }[] };
const POLICIES = 'networkpolicies';
const ROLES = 'roles';

test('namespaces: a user’s namespace gets a NetworkPolicy for the closed networks', async () => {
  const server = new FakeApi();
  await open(server, CLOSED).ensureNamespace('alice', 'oscar-svc-alice');
  const [policy] = server.all(POLICIES);
  assert.equal(policy?.metadata.namespace, 'oscar-svc-alice');
  assert.deepEqual((policy as Seen).spec, {
    podSelector: {},
    policyTypes: ['Egress'],
    egress: [
      { to: [{ namespaceSelector: {} }] },
      {
        to: [
          { ipBlock: { cidr: '0.0.0.0/0', except: ['169.254.169.254/32'] } },
          { ipBlock: { cidr: '::/0', except: ['fd00:ec2::254/128'] } },
        ],
      },
    ],
  });
});

test('namespaces: the NetworkPolicy is corrected after a start, and written only if it differs', async () => {
  const server = new FakeApi();
  await open(server, CLOSED).ensureNamespace('alice', 'oscar-svc-alice');
  const before = server.writes.length;
  await open(server, CLOSED).ensureNamespace('alice', 'oscar-svc-alice');
  assert.equal(server.writes.length, before);
  await open(server, CLOSED.slice(0, 1)).ensureNamespace('alice', 'oscar-svc-alice');
  assert.deepEqual(server.writes.slice(before), ['put networkpolicies']);
  assert.doesNotMatch(JSON.stringify(server.all(POLICIES)), /fd00/);
});

test('namespaces: no NetworkPolicy without closed networks or for the administrator', async () => {
  const server = new FakeApi();
  await open(server).ensureNamespace('alice', 'oscar-svc-alice');
  await open(server, CLOSED).ensureNamespace('cluster_admin', 'oscar-svc');
  assert.deepEqual(server.all(POLICIES), []);
});

test('namespaces: the manager replaces the Role of a Go manager with the permissions that it uses', async () => {
  const server = new FakeApi();
  const go = { rules: [{ apiGroups: ['apps'], resources: ['deployments'], verbs: ['get'] }] };
  await server.post(ROLE, 'oscar-svc-alice', {
    metadata: { name: 'oscar-controller', namespace: 'oscar-svc-alice' },
    ...go,
  } as never);
  await open(server).ensureNamespace('alice', 'oscar-svc-alice');
  const resources = () => (server.all(ROLES)[0] as Seen).rules?.flatMap((rule) => rule.resources);
  assert.deepEqual(resources(), ['pods', 'configmaps', 'secrets', 'pods/log', 'podtemplates', 'jobs']);
  await open(server, [], true).ensureNamespace('alice', 'oscar-svc-alice');
  assert.equal(resources()?.at(-1), 'services');
});
