import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { TestContext } from 'node:test';
import type { IDS } from './cluster-processes.ts';

/** A test file of the embedded cluster that also runs with another backend. `whole-system.test.ts` checks the names. */
export interface WholeSystemTests {
  /** Path below `test`, without `.test.ts`. */
  readonly file: string;
  /** Only the tests with this name. */
  readonly only?: string;
  /** Names of tests that do not apply to the backend, and why. */
  readonly except?: Readonly<Record<string, string>>;
  /** The cluster that uses the backend, if the file has several. */
  readonly id?: (typeof IDS)[number];
}

/** With MinIO as the store. Files with one manager, which listens where MinIO sends its events. */
export const WITH_MINIO: readonly WholeSystemTests[] = [
  { file: 'buckets' },
  { file: 'jobs/ends' },
  { file: 'jobs/flows', only: 'uploaded file' },
  { file: 'jobs/forged-events' },
  { file: 'jobs/invoke' },
  { file: 'jobs/users' },
];

/** With the Kubernetes API as the store. */
export const WITH_KUBERNETES: readonly WholeSystemTests[] = [
  { file: 'services' },
  { file: 'bad-input' },
  { file: 'credentials' },
  { file: 'configuration' },
  { file: 'http-surface' },
];

/** With pods: the files that cover most in little time. The others are in {@link WITH_PODS_LONG}. */
export const WITH_PODS: Readonly<Record<string, readonly WholeSystemTests[]>> = {
  'jobs and federation': [
    {
      file: 'jobs/flows',
      except: {
        '/system/info says that images are not used': 'here they are',
        'expiry: ended jobs are removed after TTL_JOB': 'it starts a second cluster',
        'among forty concurrent ones is read once': 'the node takes minutes for forty pods',
      },
    },
    {
      file: 'jobs/ends',
      except: {
        'is removed with its service, as are queued jobs': 'it needs a cluster of four cores',
        'is cancelled at once and has no log': 'it needs a cluster of four cores',
      },
    },
    { file: 'federation/changes', id: 'oscar-cluster' },
    { file: 'federation/pass-on', id: 'oscar-cluster-a' },
  ],
  delegation: [
    { file: 'delegation/outputs', id: 'oscar-cluster' },
    {
      file: 'delegation/what-scripts-see',
      id: 'oscar-cluster-a',
      except: {
        'environment: the variables and secrets of a local run':
          'a process of the origin has other variables than a pod',
      },
    },
  ],
};

const OTHER_PIDS = 'the process ids in a pod differ from those of the host';
const KUBELET_LOG = 'the log comes from the kubelet, with its own limits';

const JOBS: readonly WholeSystemTests[] = [
  { file: 'jobs/invoke' },
  { file: 'jobs/forged-events' },
  { file: 'jobs/users' },
  {
    file: 'jobs/nasty-scripts',
    except: {
      'succeeds if it exits while its children live': OTHER_PIDS,
      'ends although a child has its own session': OTHER_PIDS,
      'is killed after the timeout although it ignores TERM': OTHER_PIDS,
      'is killed by a cancel although it ignores TERM': OTHER_PIDS,
      'ends normally after printing': KUBELET_LOG,
      'is limited in the same way if it prints no newlines': KUBELET_LOG,
      'is stopped when it fills its disk quota': 'pods have another setting for it, see attempts.pods.ts',
      'is lost if it kills its wrapper': 'in a pod it cannot',
      'with names that resemble parent paths stay below the output folder': 'MinIO rejects such names',
    },
  },
];

const FEDERATION: readonly WholeSystemTests[] = [
  { file: 'federation/adoption', id: 'oscar-cluster-a' },
  { file: 'federation/refusals', id: 'oscar-cluster' },
  { file: 'federation/members-away', id: 'oscar-cluster' },
  { file: 'federation/quickstart', id: 'oscar-cluster' },
  { file: 'federation/worker-definition', id: 'oscar-cluster-a' },
  { file: 'security/forged-requests', id: 'oscar-cluster-a' },
  { file: 'federation/go-members' },
];

const DELEGATION: readonly WholeSystemTests[] = [
  { file: 'delegation/following', id: 'oscar-cluster-a' },
  { file: 'delegation/entering', id: 'oscar-cluster-a' },
  { file: 'delegation/credentials', id: 'oscar-cluster-a' },
  {
    file: 'delegation/members',
    id: 'oscar-cluster-b',
    except: {
      'next member: asked when one cannot read the input': 'here all clusters may connect to all stores',
      'run once: a delegated job is not delegated again': 'it needs a cluster of more than two cores',
    },
  },
  { file: 'delegation/policies', id: 'oscar-cluster-c' },
  { file: 'delegation/from-go', id: 'oscar-cluster-a' },
  { file: 'delegation/from-known-go' },
  { file: 'delegation/to-go' },
];

// `jobs/providers` and `federation/access` start several clusters that would be on Kubernetes. `jobs/what-scripts-see` looks for
// the files of a data directory, and for users of a machine: what it is about is in attempts.pods.ts for pods.
export const WITH_PODS_LONG: Readonly<Record<string, readonly WholeSystemTests[]>> = {
  'jobs and federation': [...JOBS, ...FEDERATION],
  delegation: DELEGATION,
};

/** Runs the tests in another process, with more environment variables, and fails unless they pass. */
export async function runWholeSystemTests(
  t: TestContext,
  { file, only, except = {} }: WholeSystemTests,
  environment: Readonly<Record<string, string>>,
): Promise<void> {
  const options = [
    ...(only === undefined ? [] : [`--test-name-pattern=${pattern(only)}`]),
    ...Object.keys(except).map((name) => `--test-skip-pattern=${pattern(name)}`),
  ];
  const child = spawn(process.execPath, [...options, testFilePath(file)], {
    env: { ...process.env, NODE_TEST_CONTEXT: '', ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  t.after(() => child.kill('SIGKILL'));
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => (output += text));
  const [code] = await once(child, 'close');
  assert.equal(code, 0, output);
  assert.match(output, /pass [1-9]/, 'tests were run');
}

export const testFilePath = (file: string) => new URL(`../${file}.test.ts`, import.meta.url).pathname;

const pattern = (name: string) => name.replaceAll('/', '\\/');
