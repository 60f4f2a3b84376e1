import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import type { Authenticator } from '../../identity/index.ts';
import { DeploymentSchema } from '../../model/service/index.ts';
import { findService, type Services } from '../../services/index.ts';
import { systemPrincipal } from '../authentication.ts';
import { Name, nameParam } from '../params.ts';
import { type DeploymentOf, NO_DEPLOYMENT } from '../service-view.ts';

const tags = ['services'];

const StatusSchema = Type.Object({
  service_name: Type.String(),
  namespace: Type.Optional(Type.String()),
  ...DeploymentSchema.properties,
});

const LogsSchema = Type.Object({
  service_name: Type.String(),
  available: Type.Boolean(),
  message: Type.Optional(Type.String()),
  entries: Type.Array(Type.Object({ timestamp: Type.Optional(Type.String()), message: Type.String() })),
});

export interface DeploymentDeps {
  readonly authenticator: Authenticator;
  readonly catalog: Services;
  readonly deploymentOf?: DeploymentOf | undefined;
}

export function deploymentRoutes(app: FastifyInstance, { authenticator, catalog, deploymentOf }: DeploymentDeps): void {
  const status = {
    operationId: 'getDeployment',
    summary: 'What stands behind a service',
    tags,
    params: Name,
    response: { 200: StatusSchema },
  };
  app.get('/system/services/:name/deployment', { schema: status }, async (request) => {
    const principal = await systemPrincipal(request, authenticator);
    const { service } = await findService(principal, 'read', nameParam(request), catalog);
    const deployment = deploymentOf?.(service) ?? NO_DEPLOYMENT;
    return { service_name: service.definition.name, namespace: service.namespace, ...deployment };
  });

  const logs = {
    operationId: 'getDeploymentLogs',
    summary: 'What it wrote',
    tags,
    params: Name,
    response: { 200: LogsSchema },
  };
  app.get('/system/services/:name/deployment/logs', { schema: logs }, async (request) => {
    const principal = await systemPrincipal(request, authenticator);
    const { service } = await findService(principal, 'read', nameParam(request), catalog);
    return {
      service_name: service.definition.name,
      available: false,
      message: 'this service has no deployment, so it has no logs of its own: see the logs of its jobs',
      entries: [],
    };
  });
}
