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
    runtime: Type.Optional(Type.String({ description: 'how scripts run, where that is not in their image' })),
  },
  { description: 'What runs here' },
);

export type Info = Static<typeof InfoSchema>;

export interface InfoDeps {
  readonly authenticator: Authenticator;
  readonly info: Info;
  /** What answers synchronous invocations; it may be installed while the manager runs. */
  readonly serverless?: (() => Info['serverless_backend']) | undefined;
}

export function infoRoutes(app: FastifyInstance, { authenticator, info, serverless }: InfoDeps): void {
  const schema = { summary: 'What runs here', tags: ['manager'], response: { 200: InfoSchema } };
  app.get('/system/info', { schema }, async (request) => {
    await systemPrincipal(request, authenticator);
    const backend = serverless?.();
    return { ...info, ...(backend && { serverless_backend: backend }) };
  });
}
