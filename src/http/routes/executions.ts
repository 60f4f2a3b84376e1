import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import type { Authenticator } from '../../identity/index.ts';
import { errors } from '../answers.ts';
import { systemPrincipal } from '../authentication.ts';
import { type ExecutionLog, readExecutions } from '../execution-log.ts';
import { Flag, readFlag } from '../params.ts';

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
    operationId: 'listInvocations',
    summary: 'The last invocations of all services; for the administrator and the users in USERS_ADMIN',
    tags: ['manager'],
    querystring: Type.Object({
      timestamps: Flag('each raw line begins with its time'),
      previous: Flag('those of the run before, which are kept on Kubernetes only'),
    }),
    response: { 200: Type.Object({ logs: Type.Array(ExecutionSchema) }), ...errors(403) },
  };
  app.get('/system/logs', { schema }, async (request) => {
    const principal = await systemPrincipal(request, authenticator);
    const wanted = { timestamps: readFlag(request, 'timestamps'), previous: readFlag(request, 'previous') };
    return { logs: await readExecutions(principal, wanted, executions) };
  });
}
