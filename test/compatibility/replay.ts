import { rmSync } from 'node:fs';
import { Agent } from 'node:http';
import { type Issuer, startIssuer } from '../support/issuer.ts';
import { CAROL } from '../support/issuer-users.ts';
import { ADMIN, startTestManager, type TestManager, temporaryDirectory } from '../support/manager.ts';
import { substituteFor } from './carry-on.ts';
import { type Exchange, type Phase, type RecordedRequest, type Run, runsOf } from './exchanges.ts';
import { jobsEnded } from './jobs-ended.ts';
import { type Known, mask } from './masks.ts';
import { castOf, fill, inRecordedTime, learntFrom, USERS, type Values } from './placeholders.ts';
import { type Received, send } from './send.ts';
import { type Step, stepsAfter } from './side-steps.ts';

/** An exchange and what our manager answers to it, masked as the recording is. */
export interface Replayed {
  readonly exchange: Exchange;
  readonly ours: Received;
  /** The answer to the substitute that was sent after it, see `carry-on.ts`. */
  readonly carriedOn?: Received;
}

const ALWAYS = {
  MINIO_TLS_VERIFY: 'false',
  // An unreachable member of the recording is on loopback.
  OSCAR_PEER_NETWORKS: '127.0.0.0/8',
  USERS_ADMIN: CAROL.sub,
};

const users = (issuer: Issuer, groups: string) => ({
  OIDC_ENABLE: 'true',
  OIDC_ISSUERS: issuer.url,
  OIDC_GROUPS: groups,
  OIDC_AUDIENCE: 'oscar',
});

/** The configuration of the Go manager, without the settings that ours does not have yet: VOLUME_ENABLE and MINIO_QUOTA_ENABLED. */
const SETTINGS: Record<Phase, (issuer: Issuer) => Record<string, string>> = {
  main: (issuer) => ({ ...ALWAYS, ...users(issuer, '/oscar') }),
  'groups+quota': (issuer) => ({ ...ALWAYS, ...users(issuer, '/alices,/nobody'), JOB_LISTING_LIMIT: '2' }),
  'no-oidc': (issuer) => ({ ...ALWAYS, OIDC_ISSUERS: issuer.url }),
};

/** Sends every exchange to our manager, in order. It is restarted where the settings change, and keeps its data. */
export async function replay(exchanges: readonly Exchange[]): Promise<Replayed[]> {
  await using issuer = await startIssuer({ users: USERS });
  const cast = await castOf(issuer);
  const directory = temporaryDirectory();
  const agent = new Agent({ keepAlive: true });
  try {
    const replayed: Replayed[] = [];
    for (const run of runsOf(exchanges)) {
      const manager = await startTestManager(SETTINGS[run.phase](issuer), directory);
      try {
        replayed.push(...(await replayRun(run, { manager, issuer, cast, agent })));
      } finally {
        await manager.stop();
      }
    }
    return replayed;
  } finally {
    agent.destroy();
    rmSync(directory, { recursive: true, force: true });
  }
}

interface Stage {
  readonly manager: TestManager;
  readonly issuer: Issuer;
  readonly cast: Values;
  readonly agent: Agent;
}

async function replayRun(run: Run, { manager, issuer, cast, agent }: Stage): Promise<Replayed[]> {
  let values: Values = { ...cast, '<endpoint>': manager.url };
  const known = await knownOf(manager, issuer);

  async function answerTo(request: RecordedRequest): Promise<Received> {
    const sent = await fill(request, values, (service) => tokenOf(service, manager));
    const received = await send(manager.url, agent, sent);
    values = { ...values, ...learntFrom(received) };
    const invoked = received.status === 201 ? /^\/job\/([\w-]+)/.exec(request.path)?.[1] : undefined;
    if (invoked) await jobsEnded(invoked, manager);
    return { ...received, text: inRecordedTime(received.text) };
  }

  async function take(step: Step): Promise<void> {
    const received = await answerTo(step.request);
    const done = step.upload === undefined ? received : await upload(step.upload, received);
    if (done.status >= 300) throw new Error(`${step.request.method} ${step.request.path} is answered ${done.status}`);
    if (step.runs) await jobsEnded(step.runs, manager);
  }

  const replayed: Replayed[] = [];
  for (const exchange of run.exchanges) {
    const ours = masked(await answerTo(exchange.request), known, exchange.request);
    const substitute = substituteFor(exchange.n, exchange.request);
    const carriedOn = substitute && masked(await answerTo(substitute), known, substitute);
    replayed.push({ exchange, ours, ...(carriedOn && { carriedOn }) });
    for (const step of stepsAfter(exchange)) await take(step);
  }
  return replayed;
}

function masked(received: Received, known: Known, { path }: RecordedRequest): Received {
  const headers = Object.entries(received.headers).map(([name, value]): [string, string] => [name, mask(value, known)]);
  return { ...received, headers: Object.fromEntries(headers), text: mask(received.text, known, path) };
}

/** Uploads an object to the URL of the answer, with nothing but the answer's data. */
function upload(content: string, answer: Received): Promise<Response> {
  const {
    url,
    method,
    headers = {},
  }: { url: string; method: string; headers?: Record<string, string> } = JSON.parse(answer.text);
  return fetch(url, { method, headers, body: content });
}

async function knownOf(manager: TestManager, issuer: Issuer): Promise<Known> {
  const { text } = await manager.call('GET', '/system/config', { as: ADMIN });
  const { minio_provider }: { minio_provider: { endpoint: string; access_key: string } } = JSON.parse(text);
  return {
    endpoint: manager.url,
    store: minio_provider.endpoint,
    accessKey: minio_provider.access_key,
    issuer: issuer.url,
  };
}

async function tokenOf(service: string, manager: TestManager): Promise<string> {
  const { text } = await manager.call('GET', `/system/services/${service}`, { as: ADMIN });
  const { token }: { token: string } = JSON.parse(text);
  return token;
}
