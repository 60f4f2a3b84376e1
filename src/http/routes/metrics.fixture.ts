import type { TestContext } from 'node:test';
import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify';
import { temporaryDirectory } from '../../../test/support/temporary-directory.ts';
import { type LocalCluster, openLocalCluster } from '../../adapters/sqlite/index.ts';
import { type Authenticator, createAuthenticator, type User } from '../../identity/index.ts';
import { Secret } from '../../lib/secret.ts';
import type { JobProgress, JobRecord, JobState, NewJob } from '../../model/job/index.ts';
import { type Sample, sampleService } from '../../ports/conformance/sample-service.ts';
import type { JobStore } from '../../ports/index.ts';
import { answerError } from '../errors.ts';
import { goJson, JSON_TYPE } from '../go-json.ts';
import { answerNotFound } from '../routing.ts';
import { logRequests } from '../server.ts';

export const ADMIN = `Basic ${Buffer.from('oscar:secret').toString('base64')}`;
/** Users are known by their names; carol is an operator. */
export const ALICE = 'Bearer alice';
export const BOB = 'Bearer bob';
export const CAROL = 'Bearer carol';

const authenticator = createAuthenticator({
  admin: { username: 'oscar', password: new Secret('secret') },
  oidc: {
    verify: async (uid): Promise<User> => ({ kind: 'user', uid, name: uid, groups: [], operator: uid === 'carol' }),
  },
});

/** As the server has it: answers are written by our own encoder. */
const NO_COMPILERS = {
  buildValidator: () => () => () => true,
  buildSerializer: () => () => goJson,
} as unknown as NonNullable<NonNullable<FastifyServerOptions['schemaController']>['compilersFactory']>;

export interface Answer {
  readonly status: number;
  readonly type: string | null;
  readonly text: string;
}

export type Get = (path: string, as?: string, headers?: Record<string, string>) => Promise<Answer>;

/** A server with these routes alone, on a free port; it goes with the test. */
export async function serve(
  t: TestContext,
  register: (app: FastifyInstance, authenticator: Authenticator) => void,
): Promise<Get> {
  const app = Fastify({ exposeHeadRoutes: false, schemaController: { compilersFactory: NO_COMPILERS } });
  t.after(() => app.close());
  app.setErrorHandler(answerError);
  app.addHook('onSend', async (_request, reply) => {
    if (reply.getHeader('content-type') === 'application/json') reply.type(JSON_TYPE);
  });
  logRequests(app);
  answerNotFound(app);
  register(app, authenticator);
  const address = await app.listen({ host: '127.0.0.1', port: 0 });
  return async (path, as, headers) => {
    const response = await fetch(`${address}${path}`, {
      redirect: 'manual',
      headers: { ...(as !== undefined && { authorization: as }), ...headers },
    });
    return { status: response.status, type: response.headers.get('content-type'), text: await response.text() };
  };
}

/** A cluster in a directory of its own; it goes with the test. */
export function openTestCluster(t: TestContext, now: () => number): LocalCluster {
  const directory = temporaryDirectory(t);
  const cluster = openLocalCluster({ directory, now });
  t.after(() => cluster.close());
  return cluster;
}

export async function addService({ services }: LocalCluster, name: string, sample: Sample = {}): Promise<void> {
  const service = sampleService(name, sample);
  const reservation = await services.reserve(name, service.uid);
  if (reservation === 'taken') throw new Error(`${name} is taken`);
  await services.create(reservation, service);
}

export interface TestJob extends Partial<NewJob> {
  readonly service: string;
  readonly acceptedAt: number;
  readonly state?: JobState;
  /** How long its script ran, in milliseconds. */
  readonly ran?: number;
}

let jobs = 0;

/** Accepts a job, and brings it to its end if it has one. */
export async function addJob(store: JobStore, { state = 'succeeded', ran, ...job }: TestJob): Promise<JobRecord> {
  const queued: JobProgress = { state: 'queued', message: '', epoch: 0, timeline: [], attempts: [], decisions: [] };
  const { record } = await store.accept(
    {
      id: `${job.service}-${++jobs}`,
      serviceUid: `uid-of-${job.service}`,
      owner: 'alice',
      principal: 'alice',
      invoker: 'alice',
      trigger: 'job',
      byToken: false,
      demand: { cpu: 1_000, memory: 0, gpu: 0 },
      ...job,
    },
    queued,
    new Uint8Array(),
  );
  if (!record) throw new Error('the job is there already');
  if (state === 'queued') return record;
  const times = ran === undefined ? {} : { startedAt: job.acceptedAt, finishedAt: job.acceptedAt + ran };
  return store.update(record, record.version, { state, ...times });
}
