import { cores } from '../../../lib/amounts.ts';
import { VERSION } from '../../../lib/product-version.ts';
import type { ClusterAnswer, ClusterClient } from '../../client/cluster-client.ts';
import type { ClusterEntry } from '../../client/config-file.ts';
import { ClientError } from '../../client/errors.ts';
import { bodyBytes, send } from '../../client/http.ts';
import type { Session } from '../../client/session.ts';
import { printable } from '../../client/table.ts';
import { formatDuration, formatGibibytes, formatSpan } from '../units.ts';
import { type Check, failed, failure, passed, warned } from './check.ts';
import { storeCheck } from './store-check.ts';

/** Longer: users wait for a manager that is down. Shorter: a slow manager counts as down. */
const PATIENCE_MS = 10_000;

/**
 * How far a clock may be off. Managers accept tokens that are a minute early, and each other's signatures for five minutes:
 * a clock that is off by half a minute will soon cause errors. `Date` has whole seconds, so smaller limits are noise.
 */
const MAX_CLOCK_SKEW_MS = 30_000;

/** All checks of one cluster. Checks that depend on a failed one are skipped. */
export async function clusterChecks(id: string, session: Session): Promise<Check[]> {
  const { entry } = session.config.cluster(id);
  const reached = await checkAddress(id, entry);
  if (!reached.answer) return [reached.check];
  const before = [reached.check, checkTls(id, entry), checkClock(id, reached.answer)];
  const asked = await checkIdentity(id, session);
  if (!asked.cluster) return [...before, asked.check];
  const { cluster } = asked;
  const rest = await Promise.all([
    versionChecks(cluster),
    checkCapacity(cluster),
    storeCheck(cluster, session.terminal),
  ]);
  return [...before, asked.check, ...rest.flat()];
}

interface Health {
  readonly date: string | undefined;
  readonly sentAt: number;
  readonly answeredAt: number;
}

async function checkAddress(
  id: string,
  { endpoint, ssl_verify }: ClusterEntry,
): Promise<{ check: Check; answer?: Health }> {
  const url = `${endpoint}/health`;
  const sentAt = Date.now();
  try {
    const answer = await send({ method: 'GET', url, verify: ssl_verify, patienceMs: PATIENCE_MS });
    const answeredAt = Date.now();
    await bodyBytes(answer, url);
    if (answer.status !== 200) {
      const said = `${url} answered ${answer.status}: is this the address of an OSCAR manager? Change it with \`oscar clusters add\``;
      return { check: failure(id, 'address', said) };
    }
    const check = passed(id, 'address', `${endpoint} answered in ${formatDuration(answeredAt - sentAt)}`);
    return { check, answer: { date: answer.headers['date'], sentAt, answeredAt } };
  } catch (error) {
    if (error instanceof ClientError) return { check: failed(id, 'address', error) };
    throw error;
  }
}

function checkTls(id: string, { endpoint, ssl_verify }: ClusterEntry): Check {
  const { protocol, hostname } = new URL(endpoint);
  if (protocol === 'https:') {
    return ssl_verify
      ? passed(id, 'tls', 'certificate verified')
      : failure(
          id,
          'tls',
          'certificate not verified: set `ssl_verify: true`, and NODE_EXTRA_CA_CERTS if its authority is private',
        );
  }
  return isLoopback(hostname)
    ? passed(id, 'tls', 'not needed on loopback')
    : failure(
        id,
        'tls',
        'the connection is not encrypted, so your tokens can be read on the network: use an https address (`oscar clusters add`)',
      );
}

const isLoopback = (host: string) => host === 'localhost' || host === '[::1]' || /^127(\.\d+){3}$/.test(host);

/** Compares the cluster's clock with ours at the middle of the exchange. */
export function checkClock(id: string, { date, sentAt, answeredAt }: Health): Check {
  const there = Date.parse(date ?? '');
  if (Number.isNaN(there)) return passed(id, 'clock', 'not checked: the answer has no date');
  const off = there - (sentAt + answeredAt) / 2;
  if (Math.abs(off) < MAX_CLOCK_SKEW_MS) return passed(id, 'clock', 'in sync');
  const said = `${formatSpan(Math.abs(off))} ${off > 0 ? 'ahead of' : 'behind'} this machine: synchronize both with NTP, or tokens and offers will be rejected`;
  return failure(id, 'clock', said);
}

async function checkIdentity(id: string, session: Session): Promise<{ check: Check; cluster?: ClusterClient }> {
  try {
    const cluster = await session.clusterNamed(id);
    await cluster.call('GET', '/system/config');
    const { entry } = cluster;
    const user = session.logins.at(id)?.login.user;
    const administrator = `${entry.auth_user ?? 'oscar'}, the administrator`;
    const who = cluster.credentials.kind === 'basic' ? administrator : (user ?? 'a user of the issuer');
    return { check: passed(id, 'identity', `you are ${who}`), cluster };
  } catch (error) {
    if (error instanceof ClientError) return { check: failed(id, 'identity', error) };
    throw error;
  }
}

/** The fields of `/system/info` that are checked. */
interface SystemInfo {
  readonly version?: string;
  /** Absent at a Go manager. */
  readonly manager_version?: string;
  readonly kubernetes_version?: string;
  readonly runtime?: string;
  readonly isolation?: { readonly namespaces: boolean; readonly enforced: readonly string[]; readonly reason?: string };
  readonly serverless_backend?: { readonly version: string };
  readonly queues?: { readonly problem: string };
  readonly object_store_events?: { readonly problem: string; readonly set: readonly string[] };
  readonly access_tokens?: { readonly problem: string };
}

const NO_KNATIVE = 'SERVERLESS_BACKEND is knative, but Knative is not installed: install it, or remove the setting';

async function versionChecks(cluster: ClusterClient): Promise<Check[]> {
  let info: SystemInfo = {};
  const check = await checkAnswer(cluster, 'version', '/system/info', (answer) => {
    info = answer as SystemInfo;
    return checkVersion(cluster.id, info);
  });
  return [
    check,
    ...checkIsolation(cluster.id, info),
    ...checkQueues(cluster.id, info),
    ...checkEvents(cluster.id, info),
    ...checkTokens(cluster.id, info),
  ];
}

function checkVersion(
  id: string,
  { version, manager_version: there = version, kubernetes_version, runtime, serverless_backend }: SystemInfo,
): Check {
  if (serverless_backend?.version === '') return failure(id, 'version', NO_KNATIVE);
  const other = there === VERSION ? '' : `; this program is ${VERSION}`;
  const kubernetes = kubernetes_version ? `, Kubernetes ${kubernetes_version}` : '';
  const how = runtime?.startsWith('process') ? ', scripts run as processes without their images' : '';
  return passed(id, 'version', `${there}${kubernetes}${how}${other}`);
}

/** Scripts that run in containers have nothing to report. */
export function checkIsolation(id: string, { isolation }: SystemInfo): Check[] {
  if (!isolation) return [];
  if (!isolation.namespaces) {
    const sentence = `scripts are not isolated: users can reach each other's files, processes and secrets: ${isolation.reason}`;
    return [warned(id, 'isolation', printable(sentence))];
  }
  const limits =
    isolation.enforced.length > 0 ? `, the kernel enforces ${isolation.enforced.join(', ')}, disk is sampled` : '';
  return [passed(id, 'isolation', printable(`scripts run in namespaces of their own${limits}`))];
}

/** Only reports problems. */
export function checkQueues(id: string, { queues: trouble }: SystemInfo): Check[] {
  return trouble ? [failure(id, 'queues', printable(`users cannot create services: ${trouble.problem}`))] : [];
}

/** Only reports problems. The manager shows them to the administrator only. */
export function checkEvents(id: string, { object_store_events: trouble }: SystemInfo): Check[] {
  if (!trouble) return [];
  return [failure(id, 'events', printable(`${trouble.problem}: ${trouble.set.join(' ')}`))];
}

/** Only a warning, because the cluster works. The manager shows it to the administrator only. */
export function checkTokens(id: string, { access_tokens: trouble }: SystemInfo): Check[] {
  return trouble ? [warned(id, 'tokens', printable(trouble.problem))] : [];
}

async function checkCapacity(cluster: ClusterClient): Promise<Check> {
  return checkAnswer(cluster, 'room', '/system/status', (answer) => {
    const { nodes_count, metrics } = (answer as Status).cluster;
    const { total_schedulable_cores: free } = metrics.cpu;
    const memory = formatGibibytes(metrics.memory.total_schedulable_bytes);
    if (nodes_count === 0) return failure(cluster.id, 'room', 'no node accepts work: ask the operator of the cluster');
    return passed(cluster.id, 'room', free > 0 ? `${cores(free)} and ${memory} free` : 'the cluster is full');
  });
}

interface Status {
  readonly cluster: {
    readonly nodes_count: number;
    readonly metrics: {
      readonly cpu: { readonly total_schedulable_cores: number };
      readonly memory: { readonly total_schedulable_bytes: number };
    };
  };
}

async function checkAnswer(
  cluster: ClusterClient,
  what: string,
  path: string,
  judge: (answer: unknown) => Check,
): Promise<Check> {
  try {
    const answer: ClusterAnswer = await cluster.call('GET', path);
    return judge(answer.json());
  } catch (error) {
    if (error instanceof ClientError) return failed(cluster.id, what, error);
    throw error;
  }
}
