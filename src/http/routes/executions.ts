import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import type { Authenticator } from '../../identity/index.ts';
import { systemPrincipal } from '../authentication.ts';
import { type ExecutionLog, readExecutions } from '../execution-log.ts';
import { readFlag } from '../params.ts';

const ExecutionSchema = Type.Object({
  timestamp: Type.String(),
  status: Type.Integer(),
  latency: Type.String(),
  client_ip: Type.String(),
  method: Type.String(),
  path: Type.String(),
  user: Type.String({ description: 'the uid, or `nil`' }),
  raw: Type.String(),
});

export interface ExecutionLogDeps {
  readonly authenticator: Authenticator;
  readonly executions: ExecutionLog;
}

export function executionLogRoutes(app: FastifyInstance, { authenticator, executions }: ExecutionLogDeps): void {
  const schema = {
    summary: 'The last invocations of all services; for the administrator and the users in USERS_ADMIN',
    tags: ['manager'],
    querystring: Type.Object({
      timestamps: Type.Optional(Type.String({ description: '`true`: each raw line begins with its time' })),
      previous: Type.Optional(
        Type.String({ description: '`true`: those of the run before, which are kept on Kubernetes only' }),
      ),
    }),
    response: { 200: Type.Object({ logs: Type.Array(ExecutionSchema) }) },
  };
  app.get('/system/logs', { schema }, async (request) => {
    const principal = await systemPrincipal(request, authenticator);
    const wanted = { timestamps: readFlag(request, 'timestamps'), previous: readFlag(request, 'previous') };
    return { logs: await readExecutions(principal, wanted, executions) };
  });
}
