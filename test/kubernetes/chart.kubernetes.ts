import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { parseAllDocuments, stringify } from 'yaml';
import { readConfig } from '../../src/config/index.ts';
import { ControlPlane } from './control-plane.ts';
import { CHART, type Operator, operator } from './helm.ts';
import { INSTALLATIONS } from './installations.ts';
import { CHART_RULES, MANAGER_NAMESPACE, type Rule, removeRights, SERVICE_ACCOUNT } from './manager-rights.ts';
import { RIGHTS } from './rights-table.ts';

interface KubeObject {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly data?: Readonly<Record<string, string>>;
  readonly rules?: readonly Rule[];
  readonly spec?: { readonly template?: object };
}

const STRICTLY = ['--dry-run=server', '--validate=strict', '--warnings-as-errors'];

describe('chart', () => {
  let plane: ControlPlane;
  let our: Operator;
  let files = 0;

  before(async () => {
    plane = await ControlPlane.start();
    our = await operator(await plane.adminKubeconfig(), plane.directory);
    // The control plane has already granted the manager's rights. Here the chart must do it.
    await removeRights(plane.admin);
    // Objection to anything that the strictest of Kubernetes' own rules for pods would refuse.
    await our.kubectl('', 'label', 'namespace', MANAGER_NAMESPACE, 'pod-security.kubernetes.io/warn=restricted');
  });
  after(() => plane.stop());

  const valuesFile = (values: object) => {
    const path = join(plane.directory, `values-${files++}.yaml`);
    writeFileSync(path, stringify(values));
    return path;
  };
  const helm = (command: readonly string[], values: object) =>
    our.helm(...command, 'oscar', CHART, '--namespace', MANAGER_NAMESPACE, '--values', valuesFile(values));
  const rendered = async (values: object) =>
    objectsIn(await helm(['template', '--dry-run=server', '--kube-version', '1.34.0'], values));

  for (const [name, values] of Object.entries(INSTALLATIONS)) {
    test(`${name}: the API server would take every object without a word`, async () => {
      const objects = await rendered(values);
      assert.ok(objects.length > 8);
      const namespaces = objects.filter(({ kind }) => kind === 'Namespace');
      // A dry run fails for objects of a namespace that does not exist yet.
      const later = new Set(namespaces.map(({ metadata }) => metadata.name));
      const tried = objects.map((object) =>
        later.has(object.metadata.namespace ?? '')
          ? { ...object, metadata: { ...object.metadata, namespace: MANAGER_NAMESPACE } }
          : object,
      );
      const named = values === INSTALLATIONS['with a Secret of the operator'] ? withoutPolicies(tried) : tried;
      const said = await our.kubectl(listOf(named), 'apply', ...STRICTLY, '-f', '-');
      assert.equal(said.trim().split('\n').length, named.length, said);
    });

    test(`${name}: the manager understands its settings`, async () => {
      const objects = await rendered(values);
      const settings = find(objects, 'ConfigMap', '-settings').data?.['oscar.yaml'] ?? '';
      const secret = objects.find(({ kind }) => kind === 'Secret');
      const secrets = secret
        ? read(secret.data)
        : { OSCAR_PASSWORD: 'p', MINIO_ACCESS_KEY: 'a', MINIO_SECRET_KEY: 's' };
      const config = readConfig(
        { ...secrets, OSCAR_CONFIG: 'oscar.yaml', OSCAR_LISTEN: '0.0.0.0:8080' },
        () => settings,
      );
      assert.equal(config.backend, 'kubernetes');
      assert.equal(config.namespace, MANAGER_NAMESPACE);
      assert.equal(config.password?.reveal(), secrets['OSCAR_PASSWORD']);
      const all = values === INSTALLATIONS['all that there is'];
      assert.deepEqual(config.stagingPullSecrets, all ? ['registry'] : []);
      assert.equal(config.metricsToken?.reveal(), all ? 'of-prometheus' : undefined);
      assert.equal(config.tracesHeaders?.reveal(), all ? 'x-key=of-ours' : undefined);
    });
  }

  /** The manager's rights in the whole cluster on resources of this API group. */
  const rightsOn = async (group: string, values: object) => {
    const role = find(await rendered({ minIO: { deploy: true }, ...values }), 'ClusterRole', '-global');
    return role.rules?.filter(({ apiGroups }) => apiGroups.includes(group)).length;
  };

  test('rights on Knative Services are given only with Knative', async () => {
    const rights = (values: object) => rightsOn('serving.knative.dev', values);
    assert.equal(await rights({}), 0);
    assert.equal(await rights({ serverlessBackend: 'knative' }), 1);
    assert.equal(await rights({ config: { SERVERLESS_BACKEND: 'knative' } }), 1);
    assert.equal(await rights({ serverlessBackend: 'knative', config: { SERVERLESS_BACKEND: '' } }), 0);
  });

  test('rights on queues are given only with Kueue', async () => {
    const rights = (values: object) => rightsOn('kueue.x-k8s.io', values);
    assert.equal(await rights({}), 0);
    assert.equal(await rights({ kueue: { enable: true } }), 4);
    for (const KUEUE_ENABLE of [true, 1, 'T '])
      assert.equal(await rights({ config: { KUEUE_ENABLE } }), 4, `${KUEUE_ENABLE}`);
    for (const KUEUE_ENABLE of [false, ''])
      assert.equal(await rights({ kueue: { enable: true }, config: { KUEUE_ENABLE } }), 0, `${KUEUE_ENABLE}`);
  });

  test('rights on NetworkPolicies are given only if the manager creates some', async () => {
    const rights = (values: object) => rightsOn('networking.k8s.io', values);
    const users = { enable: false };
    assert.equal(await rights({}), 1);
    assert.equal(await rights({ networkPolicy: { users } }), 0);
    const closed = { OSCAR_CLOSED_NETWORKS: '169.254.169.254/32' };
    assert.equal(await rights({ networkPolicy: { users }, config: closed }), 1);
    assert.equal(await rights({ config: { OSCAR_CLOSED_NETWORKS: [] } }), 0);
  });

  test('minIO.TLSVerify can be text', async () => {
    const store = { endpoint: 'https://minio.minio:9000', accessKey: 'root', secretKey: 'secret-of-root' };
    for (const said of ['true', 'false']) {
      const objects = await rendered({ minIO: { ...store, TLSVerify: said } });
      const settings = find(objects, 'ConfigMap', '-settings').data?.['oscar.yaml'] ?? '';
      assert.match(settings, new RegExp(`^MINIO_TLS_VERIFY: ${said}$`, 'm'));
    }
  });

  test('MinIO restarts when its own secrets change, not when others do', async () => {
    const podOf = async (minIO: object, more: object = {}) => {
      const objects = await rendered({ ...more, minIO: { deploy: true, ...minIO } });
      return JSON.stringify(find(objects, 'StatefulSet', '-minio').spec?.template);
    };
    const pod = await podOf({});
    assert.equal(await podOf({}, { authPass: 'another', storageProviders: {} }), pod);
    for (const secret of ['accessKey', 'secretKey', 'eventsToken'])
      assert.notEqual(await podOf({ [secret]: 'another-one' }), pod, secret);
  });

  const mistakes = [
    { name: 'no store', values: {}, says: /say where files are kept/ },
    { name: 'a store without keys', values: { minIO: { endpoint: 'http://m:9000' } }, says: /minIO.accessKey and/ },
    {
      name: 'two stores',
      values: { minIO: { deploy: true, endpoint: 'http://m:9000' } },
      says: /minIO.deploy and minIO.endpoint are both set/,
    },
    {
      name: "services in the manager's namespace",
      values: { minIO: { deploy: true }, servicesNamespace: 'oscar' },
      says: /servicesNamespace is the namespace of the manager/,
    },
    {
      name: 'OIDC without an issuer',
      values: { minIO: { deploy: true }, oidc: { enable: true } },
      says: /oidc.issuers/,
    },
    {
      name: 'a wildcard host for the manager',
      values: { minIO: { deploy: true }, ingress: { create: true } },
      says: /ingress.create needs ingress.host/,
    },
    {
      name: 'a wildcard host for MinIO',
      values: { minIO: { deploy: true, ingress: { create: true } } },
      says: /minIO.ingress.create needs minIO.ingress.host/,
    },
    {
      name: 'a password in config',
      values: { minIO: { deploy: true }, config: { OSCAR_PASSWORD: 'p' } },
      says: /config.OSCAR_PASSWORD is secret, and config goes into a ConfigMap: set authPass instead/,
    },
    {
      name: 'keys of providers in config',
      values: { minIO: { deploy: true }, config: { OSCAR_STORAGE_PROVIDERS: {} } },
      says: /set storageProviders instead/,
    },
    { name: 'a misspelt value', values: { minIO: { deploy: true }, replica: 2 }, says: /replica/ },
    {
      name: 'secrets in two places',
      values: { minIO: { deploy: true }, existingSecret: 'mine', authPass: 'p' },
      says: /put them into that Secret/,
    },
  ];
  for (const { name, values, says } of mistakes) {
    test(`${name} is refused before anything is installed`, async () => {
      await assert.rejects(rendered(values), says);
    });
  }

  describe('chart: installed', () => {
    const values = { minIO: { deploy: true } };
    const secrets = async () => (await plane.admin.do('GET', secretPath))['data'] as Record<string, string>;
    const secretPath = `/api/v1/namespaces/${MANAGER_NAMESPACE}/secrets/oscar-secrets`;
    let notes: string;

    before(async () => {
      notes = await helm(['install'], values);
    });

    test('the notes say what to do next', () => {
      assert.match(notes, /rollout status deployment\/oscar/);
      assert.match(notes, /get secret oscar-secrets -o jsonpath='{.data.OSCAR_PASSWORD}'/);
      assert.match(notes, /which no registry has/);
    });

    test('network policies keep pods of services from the API server', async () => {
      const path = '/apis/networking.k8s.io/v1/namespaces/oscar-svc/networkpolicies/oscar-services';
      const { spec } = await plane.admin.do('GET', path);
      const { clusterIP } = (await plane.admin.do('GET', '/api/v1/namespaces/default/services/kubernetes'))['spec'] as {
        clusterIP: string;
      };
      const denied = JSON.stringify(spec);
      assert.ok(denied.includes(`${clusterIP}/32`), denied);
      assert.ok(denied.includes('169.254.169.254/32'));
    });

    test('an upgrade keeps the passwords, which all differ', async () => {
      const had = await secrets();
      await helm(['upgrade'], { ...values, replicas: 3 });
      assert.deepEqual(await secrets(), had);
      const made = ['OSCAR_PASSWORD', 'OSCAR_EVENTS_TOKEN', 'MINIO_SECRET_KEY'].map((key) => had[key] ?? '');
      assert.equal(new Set(made).size, 3);
      for (const value of made) assert.equal(Buffer.from(value, 'base64').length, 32);
    });

    test('a secret that is no longer set is removed by the next upgrade', async () => {
      const had = await secrets();
      const client = { enable: true, issuers: ['https://aai.example.org/a'], clientId: 'c', clientSecret: 's' };
      await helm(['upgrade'], { ...values, oidc: client });
      assert.equal(read(await secrets())['OIDC_CLIENT_SECRET'], 's');
      await helm(['upgrade'], { ...values, oidc: { ...client, clientSecret: '' } });
      assert.deepEqual(await secrets(), had);
    });

    /** Asks the API server. */
    const can = async (user: string, verb: string, resource: string, namespace: string) => {
      const [group = '', rest = ''] = resource.includes('/') ? resource.split(/\/(.*)/) : ['', resource];
      const [plural, subresource] = rest.split('/');
      const { status } = await plane.admin.do('POST', '/apis/authorization.k8s.io/v1/subjectaccessreviews', {
        spec: {
          user,
          groups: ['system:serviceaccounts', `system:serviceaccounts:${user.split(':')[2]}`, 'system:authenticated'],
          resourceAttributes: { verb, group, resource: plural, subresource, namespace },
        },
      });
      return (status as { allowed: boolean }).allowed;
    };
    const manager = `system:serviceaccount:${MANAGER_NAMESPACE}:${SERVICE_ACCOUNT}`;
    const usersPod = 'system:serviceaccount:oscar-svc:default';

    for (const [resource, namespace, may, mayNot] of RIGHTS) {
      const verbs = (text: string) => text.split(' ').filter((verb) => verb !== '');
      const where = namespace === '' ? '' : ` in ${namespace}`;
      test(`the manager may ${may || 'do nothing'} with ${resource}${where}${mayNot && `, and not ${mayNot}`}`, async () => {
        for (const verb of verbs(may)) assert.ok(await can(manager, verb, resource, namespace), verb);
        for (const verb of verbs(mayNot)) assert.ok(!(await can(manager, verb, resource, namespace)), verb);
      });
      test(`a user’s pod may do nothing with ${resource}${where}`, async () => {
        for (const verb of verbs(`${may} ${mayNot}`))
          assert.ok(!(await can(usersPod, verb, resource, namespace)), verb);
      });
    }

    /** All that an account may do in a namespace, without what everybody may: to ask who they are and what they may. */
    const rightsOf = async (user: string, namespace: string) => {
      const review = { apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectRulesReview', spec: { namespace } };
      const groups = ['system:serviceaccounts', 'system:authenticated'].flatMap((group) => ['--as-group', group]);
      // Client-side validation would need rights that these accounts do not have.
      const create = ['create', '--validate=false', '-f', '-', '-o', 'json', '--as', user, ...groups];
      const { status } = JSON.parse(await our.kubectl(JSON.stringify(review), ...create)) as {
        status: { resourceRules: Rule[] };
      };
      return rights(status.resourceRules).filter((right) => !/^auth\w+\.k8s\.io\/selfsubject\w+ create$/.test(right));
    };

    test('the manager has exactly the listed rights', async () => {
      assert.deepEqual((await rightsOf(manager, 'oscar-svc-alice')).toSorted(), rights(CHART_RULES).toSorted());
      const own = await rightsOf(manager, MANAGER_NAMESPACE);
      const leases = ['get', 'create', 'update'].map((verb) => `coordination.k8s.io/leases ${verb}`);
      const more = [...leases, 'apps/deployments get', '/events create'];
      assert.deepEqual(own.toSorted(), [...rights(CHART_RULES), ...more].toSorted());
    });

    test("a user's pod has no rights", async () => {
      for (const namespace of ['oscar-svc', MANAGER_NAMESPACE])
        assert.deepEqual(await rightsOf(usersPod, namespace), []);
    });

    test("the manager cannot escalate its rights in a user's namespace", async () => {
      const token = await plane.admin.do('POST', `/api/v1/namespaces/oscar/serviceaccounts/${SERVICE_ACCOUNT}/token`, {
        spec: { expirationSeconds: 600 },
      });
      const role = (rules: object[]) => ({
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'Role',
        metadata: { name: 'more', namespace: 'oscar-svc' },
        rules,
      });
      const as = ['--kubeconfig', join(plane.directory, 'nobody.kubeconfig'), '--token', tokenOf(token)];
      const create = (object: object) =>
        our.kubectl(JSON.stringify(object), 'create', '--dry-run=server', '-f', '-', ...as);
      await writeNobody(plane);
      await create(role([{ apiGroups: [''], resources: ['pods'], verbs: ['get'] }]));
      await assert.rejects(
        create(role([{ apiGroups: [''], resources: ['pods/exec'], verbs: ['create'] }])),
        /attempting to grant RBAC permissions not currently held/,
      );
    });

    test('uninstalling keeps services and secrets, and a new install finds them', async () => {
      const had = await secrets();
      await our.helm('uninstall', 'oscar', '--namespace', MANAGER_NAMESPACE);
      const gone = await plane.admin.ask('GET', `/apis/apps/v1/namespaces/${MANAGER_NAMESPACE}/deployments/oscar`);
      assert.equal(gone.status, 404);
      assert.equal((await plane.admin.ask('GET', '/api/v1/namespaces/oscar-svc')).status, 200);
      await helm(['install'], values);
      assert.deepEqual(await secrets(), had);
    });
  });
});

/** One entry per verb and resource: `batch/jobs create`. */
const rights = (rules: readonly Rule[]) =>
  rules.flatMap(({ apiGroups, resources, verbs }) =>
    apiGroups.flatMap((group) => resources.flatMap((resource) => verbs.map((verb) => `${group}/${resource} ${verb}`))),
  );

const tokenOf = (answer: Record<string, unknown>) => (answer['status'] as { token: string }).token;

/** Writes a kubeconfig without credentials. */
async function writeNobody(plane: ControlPlane): Promise<void> {
  const cluster = {
    server: `https://127.0.0.1:${plane.port}`,
    'certificate-authority': plane.certificates.path('ca.crt'),
  };
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'test', cluster }],
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'nobody' } }],
    users: [{ name: 'nobody', user: {} }],
    'current-context': 'test',
  };
  writeFileSync(join(plane.directory, 'nobody.kubeconfig'), JSON.stringify(config));
}

const objectsIn = (text: string): KubeObject[] =>
  parseAllDocuments(text)
    .map((document) => document.toJS() as KubeObject | null)
    .filter((object) => object !== null);

/** The decoded values of a Secret. */
const read = (data: Readonly<Record<string, string>> = {}) =>
  Object.fromEntries(Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]));

/** As JSON: current YAML writers leave `on` without quotes, and kubectl reads that as true. */
const listOf = (items: readonly object[]) => JSON.stringify({ apiVersion: 'v1', kind: 'List', items });

/** Without network policies, whose namespace another party creates. */
const withoutPolicies = (objects: readonly KubeObject[]) =>
  objects.filter(({ metadata }) => metadata.namespace !== 'oscar-svc');

function find(objects: readonly KubeObject[], kind: string, ending: string): KubeObject {
  const found = objects.find((object) => object.kind === kind && object.metadata.name.endsWith(ending));
  assert.ok(found, `${kind} …${ending}`);
  return found;
}
