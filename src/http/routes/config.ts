import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import type { Admin, Authenticator, User } from '../../identity/index.ts';
import type { ClusterStore } from '../../model/service/index.ts';
import type { NodeCapacity, SettingsStore, StoreKeys } from '../../ports/index.ts';
import { setAllowedImages } from '../../services/index.ts';
import { withMedia } from '../answers.ts';
import { systemPrincipal } from '../authentication.ts';
import { beforeBody, readJsonBody } from '../body.ts';
import { HttpError } from '../errors.ts';
import { JSON_TYPE } from '../go-json.ts';

const ClusterConfigSchema = Type.Object({
  name: Type.String(),
  namespace: Type.String(),
  services_namespace: Type.String(),
  controller_service_account: Type.String(),
  gpu_available: Type.Boolean(),
  interLink_available: Type.Boolean(),
  serverless_backend: Type.Optional(Type.String()),
  yunikorn_enable: Type.Boolean(),
  kueue_enable: Type.Boolean(),
  volume_enable: Type.Boolean(),
  oidc_groups: Type.Array(Type.String(), { description: '`[""]` when every user is let in' }),
  minio_quota_enabled: Type.Boolean(),
});

export type ClusterConfig = Static<typeof ClusterConfigSchema>;

const ProviderSchema = Type.Object({
  endpoint: Type.String(),
  verify: Type.Boolean(),
  access_key: Type.String(),
  secret_key: Type.String(),
  region: Type.String(),
});

const ConfigSchema = Type.Object({
  config: ClusterConfigSchema,
  minio_provider: ProviderSchema,
  allowed_image_repositories: Type.Array(Type.String()),
});

export interface ConfigDeps {
  readonly authenticator: Authenticator;
  /** The configuration without the data of the nodes. */
  readonly clusterConfig: ClusterConfig;
  /** The current nodes of the cluster. */
  readonly nodes: () => readonly NodeCapacity[];
  readonly store: ClusterStore;
  /** The store keys of the caller; for the administrator, those of the manager. */
  readonly keysOf: (principal: Admin | User) => Promise<StoreKeys>;
  /** Gives a user new keys. */
  readonly rotateKeys: (user: User) => Promise<StoreKeys>;
  readonly settings: SettingsStore;
}

export function configRoutes(app: FastifyInstance, deps: ConfigDeps): void {
  const tags = ['manager'];
  const who = (request: FastifyRequest) => systemPrincipal(request, deps.authenticator);
  const read = {
    operationId: 'getConfig',
    summary: 'The cluster, and the keys of the caller for its store',
    tags,
    response: { 200: ConfigSchema },
  };
  app.get('/system/config', { schema: read }, async (request) => {
    const principal = await who(request);
    const [keys, { settings }] = await Promise.all([deps.keysOf(principal), deps.settings.read()]);
    return {
      config: { ...deps.clusterConfig, gpu_available: deps.nodes().some(({ total }) => total.gpu > 0) },
      minio_provider: toProvider(deps.store, keys),
      allowed_image_repositories: settings.allowedImageRepositories,
    };
  });

  const rotate = {
    operationId: 'rotateKeys',
    summary: 'New keys for the store; the old ones stop working',
    description: 'For users: the keys of the administrator are settings of the manager, so that the answer is 400.',
    tags,
    response: { 200: Type.Object({ minio_provider: ProviderSchema }) },
  };
  app.post('/system/config/keys', { schema: rotate, ...beforeBody(who) }, async (request) => {
    const principal = await who(request);
    if (principal.kind === 'admin') {
      throw new HttpError(
        'bad-request',
        'the keys of the administrator cannot be rotated here: change MINIO_ACCESS_KEY and MINIO_SECRET_KEY',
      );
    }
    return { minio_provider: toProvider(deps.store, await deps.rotateKeys(principal)) };
  });

  const write = {
    operationId: 'setAllowedImages',
    summary: 'Change the repositories that images may come from',
    description: 'For the administrator. An empty list allows every image; so does a body without the list.',
    tags,
    body: Type.Object(
      {
        allowed_image_repositories: Type.Optional(
          Type.Union([Type.Array(Type.String({ pattern: '\\S' })), Type.Null()]),
        ),
      },
      { examples: [{ allowed_image_repositories: ['ghcr.io/grycap'] }] },
    ),
    response: {
      200: Type.Union([Type.Array(Type.String()), Type.Null()]),
      401: withMedia('The caller is not the administrator, or is nobody: then without a body', {
        'application/json': Type.Literal(''),
      }),
    },
  };
  const onRequest = async (request: FastifyRequest, reply: FastifyReply) => {
    if ((await who(request)).kind === 'admin') return undefined;
    // The same answer to a bearer token as the Go manager, including the body (docs/go-manager.md#configuration-and-status).
    return reply.code(401).type(JSON_TYPE).send('""');
  };
  app.put('/system/config', { schema: write, onRequest }, async (request, reply) => {
    const repositories = readRepositories(readJsonBody(request));
    await setAllowedImages(repositories ?? [], deps.settings);
    return reply.type(JSON_TYPE).send(JSON.stringify(repositories));
  });
}

function toProvider({ endpoint, verify, region }: ClusterStore, { accessKey, secretKey }: StoreKeys) {
  return { endpoint, verify, access_key: accessKey.reveal(), secret_key: secretKey.reveal(), region };
}

function readRepositories(body: unknown): string[] | null {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new HttpError('bad-request', 'the body must be a JSON object with allowed_image_repositories');
  }
  const given = Object.entries(body).find(([key]) => key.toLowerCase() === 'allowed_image_repositories')?.[1] ?? null;
  if (given === null) return null;
  if (!Array.isArray(given) || !given.every((entry) => typeof entry === 'string')) {
    throw new HttpError('bad-request', 'allowed_image_repositories: must be a list of strings');
  }
  return given;
}
