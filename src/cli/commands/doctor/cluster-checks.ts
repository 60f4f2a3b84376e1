import { cores } from '../../../lib/amounts.ts';
import { VERSION } from '../../../lib/product-version.ts';
import type { ClusterAnswer, ClusterClient } from '../../client/cluster-client.ts';
import type { ClusterEntry } from '../../client/config-file.ts';
import { ClientError } from '../../client/errors.ts';
import { bodyBytes, send } from '../../client/http.ts';
import type { Session } from '../../client/session.ts';
import { printable } from '../../client/table.ts';
import { exactly, gibibytes, span } from '../units.ts';
import { bad, type Check, failed, good } from './check.ts';
import { storeCheck } from './store-check.ts';

/** Longer than a healthy manager takes for a health check, shorter than anybody looks on. */
const PATIENCE_MS = 10_000;

/**
 * How far a clock may be off. Managers accept tokens that are a minute too early, and each other's signatures for five:
 * who is half a minute off is on the way there. `Date` counts whole seconds, so that less than two mean nothing.
 */
const FARTHEST_MS = 30_000;

/** Everything that can be seen of a cluster from here; what depends on something that failed is left out. */
export async function clusterChecks(id: string, session: Session): Promise<Check[]> {
  const { entry } = session.config.cluster(id);
  const reached = await reach(id, entry);
  if (!reached.answer) return [reached.check];
  const before = [reached.check, transport(id, entry), clock(id, reached.answer)];
  const asked = await identify(id, session);
  if (!asked.cluster) return [...before, asked.check];
  const { cluster } = asked;
  const rest = await Promise.all([version(cluster), room(cluster), storeCheck(cluster, session.terminal)]);
  return [...before, asked.check, ...rest.flat()];
}

interface Health {
  readonly date: string | undefined;
  readonly sentAt: number;
  readonly answeredAt: number;
}

async function reach(id: string, { endpoint, ssl_verify }: ClusterEntry): Promise<{ check: Check; answer?: Health }> {
  const url = `${endpoint}/health`;
  const sentAt = Date.now();
  try {
    const answer = await send({ method: 'GET', url, verify: ssl_verify, patienceMs: PATIENCE_MS });
    const answeredAt = Date.now();
    await bodyBytes(answer, url);
    if (answer.statusCode !== 200) {
      const said = `${url} answers ${answer.statusCode}: is it the address of an OSCAR manager? \`oscar clusters add\` changes it`;
      return { check: bad(id, 'address', said) };
    }
    const check = good(id, 'address', `${endpoint} answers after ${exactly(answeredAt - sentAt)}`);
    return { check, answer: { date: answer.headers.date, sentAt, answeredAt } };
  } catch (error) {
    if (error instanceof ClientError) return { check: failed(id, 'address', error) };
    throw error;
  }
}

function transport(id: string, { endpoint, ssl_verify }: ClusterEntry): Check {
  const { protocol, hostname } = new URL(endpoint);
  if (protocol === 'https:') {
    return ssl_verify
      ? good(id, 'tls', 'its certificate holds')
      : bad(
          id,
          'tls',
          'its certificate is not verified: set `ssl_verify: true`, and NODE_EXTRA_CA_CERTS for its authority',
        );
  }
  return isLoopback(hostname)
    ? good(id, 'tls', 'none is needed: it is on this machine')
    : bad(id, 'tls', 'whoever is on the way there reads your tokens: give its https address with `oscar clusters add`');
}

const isLoopback = (host: string) => host === 'localhost' || host === '[::1]' || /^127(\.\d+){3}$/.test(host);

/** Its clock against ours at the middle of the exchange. */
export function clock(id: string, { date, sentAt, answeredAt }: Health): Check {
  const there = Date.parse(date ?? '');
  if (Number.isNaN(there)) return good(id, 'clock', 'it does not say what time it is');
  const off = there - (sentAt + answeredAt) / 2;
  if (Math.abs(off) < FARTHEST_MS) return good(id, 'clock', 'as here');
  const said = `it is ${span(Math.abs(off))} ${off > 0 ? 'ahead of' : 'behind'} this machine: one of the two needs NTP, tokens and offers are refused otherwise`;
  return bad(id, 'clock', said);
}

async function identify(id: string, session: Session): Promise<{ check: Check; cluster?: ClusterClient }> {
  try {
    const cluster = await session.clusterNamed(id);
    await cluster.call('GET', '/system/config');
    const { entry } = cluster;
    const user = session.logins.at(id)?.login.user;
    const administrator = `${entry.auth_user ?? 'the administrator'}, its administrator`;
    const who = cluster.credentials.kind === 'basic' ? administrator : (user ?? 'a user of its issuer');
    return { check: good(id, 'identity', `you are ${who}`), cluster };
  } catch (error) {
    if (error instanceof ClientError) return { check: failed(id, 'identity', error) };
    throw error;
  }
}

/** What is read of `/system/info`. */
interface Told {
  readonly version?: string;
  readonly kubernetes_version?: string;
  readonly runtime?: string;
  readonly serverless_backend?: { readonly version: string };
  readonly queues?: { readonly problem: string };
  readonly object_store_events?: { readonly problem: string; readonly set: readonly string[] };
}

const NO_KNATIVE =
  'its synchronous calls are for Knative, which is not installed there: its operator has to install it, or to leave SERVERLESS_BACKEND out';

async function version(cluster: ClusterClient): Promise<Check[]> {
  let told: Told = {};
  const check = await asking(cluster, 'version', '/system/info', (answer) => {
    told = answer as Told;
    return versionIn(cluster.id, told);
  });
  return [check, ...queues(cluster.id, told), ...events(cluster.id, told)];
}

function versionIn(id: string, { version: there, kubernetes_version, runtime, serverless_backend }: Told): Check {
  if (serverless_backend?.version === '') return bad(id, 'version', NO_KNATIVE);
  const other = there === VERSION ? '' : `; this program is ${VERSION}`;
  const beside = kubernetes_version ? `, Kubernetes ${kubernetes_version}` : '';
  const how = runtime?.startsWith('process') ? ', scripts run as plain processes without their images' : '';
  return good(id, 'version', `${there}${beside}${how}${other}`);
}

/** Only if there is something to do. */
export function queues(id: string, { queues: trouble }: Told): Check[] {
  return trouble ? [bad(id, 'queues', printable(`services of users are not made: ${trouble.problem}`))] : [];
}

/** Only its administrator is told, and only if there is something to do. */
export function events(id: string, { object_store_events: trouble }: Told): Check[] {
  if (!trouble) return [];
  return [bad(id, 'events', printable(`${trouble.problem}: ${trouble.set.join(' ')}`))];
}

async function room(cluster: ClusterClient): Promise<Check> {
  return asking(cluster, 'room', '/system/status', (answer) => {
    const { nodes_count, metrics } = (answer as Status).cluster;
    const { total_schedulable_cores: free } = metrics.cpu;
    const memory = gibibytes(metrics.memory.total_schedulable_bytes);
    if (nodes_count === 0)
      return bad(cluster.id, 'room', 'it has no node that takes work: its operator has to see to it');
    return good(cluster.id, 'room', free > 0 ? `${cores(free)} and ${memory} are free` : 'it is full now');
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

async function asking(
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
