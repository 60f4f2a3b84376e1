import { setTimeout as pause } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import { type Static, Type } from 'typebox';
import type { Authenticator } from '../../identity/index.ts';
import { systemPrincipal } from '../authentication.ts';

const InfoSchema = Type.Object(
  {
    version: Type.String({ description: 'the level of the OSCAR API that is implemented' }),
    git_commit: Type.String({ description: 'always empty: `manager_commit` is the commit of this manager' }),
    architecture: Type.String({ description: 'as Go names it: amd64, arm64' }),
    kubernetes_version: Type.String({ description: 'empty with the local backend' }),
    serverless_backend: Type.Optional(
      Type.Object(
        {
          name: Type.String(),
          version: Type.String({ description: 'the version of Kubernetes; empty if Knative is not installed' }),
        },
        { description: 'what runs synchronous invocations, if not the manager itself' },
      ),
    ),
    queues: Type.Optional(
      Type.Object(
        { problem: Type.String() },
        { description: 'why Kueue does not admit jobs of users; absent if there is no problem' },
      ),
    ),
    manager_version: Type.String({ description: 'the version of this manager' }),
    manager_commit: Type.String({ description: 'the commit that it was built from; empty if that is not known' }),
    runtime: Type.Optional(Type.String({ description: 'how scripts run, if not in containers of their image' })),
    isolation: Type.Optional(
      Type.Object(
        {
          user_ids: Type.Boolean({ description: 'each script has a user id of its own' }),
          namespaces: Type.Boolean({ description: 'each script has PID, mount and IPC namespaces of its own' }),
          enforced: Type.Array(Type.String(), {
            description: 'limits that the kernel enforces; disk is always sampled',
          }),
          reason: Type.Optional(Type.String({ description: 'why there are no namespaces' })),
        },
        { description: 'what separates scripts that run as plain processes' },
      ),
    ),
    object_store_events: Type.Optional(
      Type.Object(
        {
          problem: Type.String(),
          set: Type.Array(Type.String({ description: 'a variable and its value, unless the value is secret' })),
        },
        { description: 'for the administrator: why the object store does not report new objects; absent if it does' },
      ),
    ),
    access_tokens: Type.Optional(
      Type.Object(
        { problem: Type.String() },
        {
          description: 'for the administrator: why tokens for other applications are accepted; absent if they are not',
        },
      ),
    ),
  },
  { description: 'What runs here' },
);

export type Info = Static<typeof InfoSchema>;

export interface InfoDeps {
  readonly authenticator: Authenticator;
  readonly info: Info;
  /** What runs synchronous invocations; it may be installed while the manager runs. */
  readonly serverless?: (() => Info['serverless_backend']) | undefined;
  /** Why Kueue does not admit jobs of users. */
  readonly queueTrouble?: (() => string | undefined) | undefined;
  /** Why the object store does not report new objects. */
  readonly storeTrouble?: (() => Promise<Info['object_store_events']>) | undefined;
  /** Why access tokens for other applications are accepted. */
  readonly tokenProblem?: string | undefined;
}

/** `/system/info` does not wait for an object store that does not answer. */
const STORE_PATIENCE_MS = 2_000;

export function infoRoutes(app: FastifyInstance, deps: InfoDeps): void {
  const schema = {
    operationId: 'getInfo',
    summary: 'What runs here',
    tags: ['manager'],
    response: { 200: InfoSchema },
  };
  app.get('/system/info', { schema }, async (request) => {
    const { kind } = await systemPrincipal(request, deps.authenticator);
    return readInfo(deps, kind === 'admin');
  });
}

/** What runs here now; for the administrator also what must be mended. */
export async function readInfo(deps: Omit<InfoDeps, 'authenticator'>, forAdmin: boolean): Promise<Info> {
  const { info, serverless, queueTrouble, storeTrouble, tokenProblem } = deps;
  const backend = serverless?.();
  const problem = queueTrouble?.();
  const trouble = forAdmin ? await soon(storeTrouble) : undefined;
  return {
    ...info,
    ...(backend && { serverless_backend: backend }),
    ...(problem !== undefined && { queues: { problem } }),
    ...(trouble && { object_store_events: trouble }),
    ...(forAdmin && tokenProblem !== undefined && { access_tokens: { problem: tokenProblem } }),
  };
}

/** Undefined if the store does not answer in time, which is reported elsewhere. */
async function soon(ask: InfoDeps['storeTrouble']): Promise<Info['object_store_events']> {
  if (!ask) return undefined;
  const late = new AbortController();
  const waited = pause(STORE_PATIENCE_MS, undefined, { signal: late.signal }).catch(() => undefined);
  const trouble = await Promise.race([ask().catch(() => undefined), waited]);
  late.abort();
  return trouble;
}
