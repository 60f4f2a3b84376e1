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
    runtime: Type.Optional(Type.String({ description: 'how scripts run, where that is not in their image' })),
  },
  { description: 'What runs here' },
);

export type Info = Static<typeof InfoSchema>;

export function infoRoutes(app: FastifyInstance, deps: { authenticator: Authenticator; info: Info }): void {
  const schema = { summary: 'What runs here', tags: ['manager'], response: { 200: InfoSchema } };
  app.get('/system/info', { schema }, async (request) => {
    await systemPrincipal(request, deps.authenticator);
    return deps.info;
  });
}
