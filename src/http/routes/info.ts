import { setTimeout as pause } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import { type Static, Type } from 'typebox';
import type { Authenticator } from '../../identity/index.ts';
import { systemPrincipal } from '../authentication.ts';

const InfoSchema = Type.Object(
  {
    version: Type.String(),
    git_commit: Type.String(),
    architecture: Type.String({ description: 'as Go names it: amd64, arm64' }),
    kubernetes_version: Type.String({ description: 'empty when the cluster is this machine' }),
    serverless_backend: Type.Optional(
      Type.Object(
        {
          name: Type.String(),
          version: Type.String({ description: 'that of Kubernetes; empty when it is not installed' }),
        },
        { description: 'what answers synchronous invocations, if that is not the manager itself' },
      ),
    ),
    queues: Type.Optional(
      Type.Object(
        { problem: Type.String() },
        { description: 'why Kueue, which is to let jobs of users in, does not; absent when all is well' },
      ),
    ),
    runtime: Type.Optional(Type.String({ description: 'how scripts run, where that is not in their image' })),
    object_store_events: Type.Optional(
      Type.Object(
        {
          problem: Type.String(),
          set: Type.Array(Type.String({ description: 'a variable and its value, unless that is secret' })),
        },
        { description: 'for the administrator: why the object store does not report new objects; absent when it does' },
      ),
    ),
  },
  { description: 'What runs here' },
);

export type Info = Static<typeof InfoSchema>;

export interface InfoDeps {
  readonly authenticator: Authenticator;
  readonly info: Info;
  /** What answers synchronous invocations; it may be installed while the manager runs. */
  readonly serverless?: (() => Info['serverless_backend']) | undefined;
  /** Why nobody lets jobs of users in. */
  readonly queueTrouble?: (() => string | undefined) | undefined;
  /** Why the object store does not report new objects. */
  readonly storeTrouble?: (() => Promise<Info['object_store_events']>) | undefined;
}

/** What runs here is told without a store that does not answer. */
const STORE_PATIENCE_MS = 2_000;

export function infoRoutes(app: FastifyInstance, deps: InfoDeps): void {
  const { authenticator, info, serverless, queueTrouble, storeTrouble } = deps;
  const schema = { summary: 'What runs here', tags: ['manager'], response: { 200: InfoSchema } };
  app.get('/system/info', { schema }, async (request) => {
    const { kind } = await systemPrincipal(request, authenticator);
    const backend = serverless?.();
    const problem = queueTrouble?.();
    const trouble = kind === 'admin' ? await soon(storeTrouble) : undefined;
    return {
      ...info,
      ...(backend && { serverless_backend: backend }),
      ...(problem !== undefined && { queues: { problem } }),
      ...(trouble && { object_store_events: trouble }),
    };
  });
}

/** That it does not answer is told elsewhere. */
async function soon(ask: InfoDeps['storeTrouble']): Promise<Info['object_store_events']> {
  if (!ask) return undefined;
  const late = new AbortController();
  const waited = pause(STORE_PATIENCE_MS, undefined, { signal: late.signal }).catch(() => undefined);
  const trouble = await Promise.race([ask().catch(() => undefined), waited]);
  late.abort();
  return trouble;
}
