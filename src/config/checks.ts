import { isLoopback } from './kinds/network.ts';
import type { Config } from './settings.ts';

/** A rule about several settings. It is skipped if one of them is invalid and so has no value. */
type Check = (values: object) => string | undefined;

/** Creates a check that can read only the settings in `about`. */
function check<const K extends keyof Config>(
  about: readonly K[],
  problem: (config: Pick<Config, K>) => string | undefined,
): Check {
  const hasAll = (values: object): values is Pick<Config, K> => about.every((key) => key in values);
  return (values) => (hasAll(values) ? problem(values) : undefined);
}

/** Whether this manager runs the object store itself: it does unless `MINIO_ENDPOINT` names another one. */
export function hasOwnStore({ backend, minioEndpoint, storePort }: Pick<Config, StoreKey>): boolean {
  return backend === 'local' && minioEndpoint === `http://127.0.0.1:${storePort}`;
}

const STORE = ['backend', 'minioEndpoint', 'storePort'] as const;
type StoreKey = (typeof STORE)[number];

function requiredForStore(variable: string, config: Pick<Config, StoreKey>): string | undefined {
  if (hasOwnStore(config)) return undefined;
  return `${variable} is missing; it is required for the store at ${config.minioEndpoint}`;
}

/** Which user a token of each issuer means must be decided by the operator, and in one way (decision 0057). */
function issuersProblem(config: Pick<Config, 'oidcIssuers' | 'oidcIssuerAliases' | 'oidcEqualIssuers'>) {
  const [first, ...others] = [...new Set(config.oidcIssuers)];
  const aliased = config.oidcIssuerAliases.map(({ issuer }) => issuer);
  const named = [...aliased, ...config.oidcEqualIssuers];
  const foreign = named.find((issuer) => !others.includes(issuer));
  if (foreign !== undefined) {
    return foreign === first
      ? `OIDC_ISSUER_ALIASES and OIDC_EQUAL_ISSUERS are for the issuers after the first, and ${first} is the first of OIDC_ISSUERS; remove it there`
      : `OIDC_ISSUERS does not contain ${foreign}, which OIDC_ISSUER_ALIASES or OIDC_EQUAL_ISSUERS names; add it, or remove it there`;
  }
  const twice = named.find((issuer, index) => named.indexOf(issuer) !== index);
  if (twice !== undefined) {
    return `OIDC_ISSUER_ALIASES and OIDC_EQUAL_ISSUERS name ${twice} more than once; name it once in one of them`;
  }
  const aliases = config.oidcIssuerAliases.map(({ alias }) => alias);
  const repeated = aliases.find((alias, index) => aliases.indexOf(alias) !== index);
  if (repeated !== undefined) {
    return `OIDC_ISSUER_ALIASES gives the alias "${repeated}" to two issuers, whose users would then be the same; choose another alias`;
  }
  const unnamed = others.find((issuer) => !named.includes(issuer));
  if (unnamed === undefined) return undefined;
  return (
    `OIDC_ISSUERS has more than one issuer, so that users of ${unnamed} need a name of their own: set ` +
    `OIDC_ISSUER_ALIASES=<alias>=${unnamed}, or, only if the same sub is the same person at both issuers, ` +
    `OIDC_EQUAL_ISSUERS=${unnamed}`
  );
}

/** Without an audience, the ID token of a user for any application would open the manager (decision 0064). */
function idTokensProblem(config: Pick<Config, 'oidcIssuers' | 'oidcIdTokenIssuers' | 'oidcAudience'>) {
  const foreign = config.oidcIdTokenIssuers.find((issuer) => !config.oidcIssuers.includes(issuer));
  if (foreign !== undefined)
    return `OIDC_ISSUERS does not contain ${foreign}, which OIDC_ID_TOKEN_ISSUERS names; add it`;
  if (config.oidcIdTokenIssuers.length === 0 || config.oidcAudience.length > 0) return undefined;
  return 'OIDC_AUDIENCE is missing; with OIDC_ID_TOKEN_ISSUERS it must name the clients of your applications';
}

export const CHECKS: readonly Check[] = [
  check(['backend', 'password'], ({ backend, password }) =>
    backend === 'kubernetes' && !password
      ? 'OSCAR_PASSWORD is missing; it is required with OSCAR_BACKEND=kubernetes'
      : undefined,
  ),
  check(['backend', 'externalStore', 'stagingImage'], ({ backend, externalStore, stagingImage }) =>
    backend === 'kubernetes' && externalStore !== 'none' && !stagingImage
      ? 'OSCAR_STAGING_IMAGE is missing; with OSCAR_BACKEND=kubernetes it is the image of this manager, which moves ' +
        'the files of jobs in their pods'
      : undefined,
  ),
  check([...STORE, 'minioAccessKey'], (config) =>
    config.minioAccessKey ? undefined : requiredForStore('MINIO_ACCESS_KEY', config),
  ),
  check([...STORE, 'minioSecretKey'], (config) =>
    config.minioSecretKey ? undefined : requiredForStore('MINIO_SECRET_KEY', config),
  ),
  check([...STORE, 'minioAccessKey', 'minioSecretKey'], (config) =>
    hasOwnStore(config) && !config.minioAccessKey !== !config.minioSecretKey
      ? 'MINIO_ACCESS_KEY and MINIO_SECRET_KEY belong together; set both, or neither to have them generated'
      : undefined,
  ),
  check([...STORE, 'listen'], (config) =>
    hasOwnStore(config) && config.storePort !== 0 && config.listen.port === config.storePort
      ? `OSCAR_STORE_PORT is ${config.storePort}, the port on which the manager itself listens; change one of them`
      : undefined,
  ),
  check(['backend', 'serverlessBackend'], ({ backend, serverlessBackend }) =>
    backend === 'local' && serverlessBackend
      ? `SERVERLESS_BACKEND is "${serverlessBackend}", which needs OSCAR_BACKEND=kubernetes`
      : undefined,
  ),
  check(['backend', 'kueueEnable'], ({ backend, kueueEnable }) =>
    backend === 'local' && kueueEnable ? 'KUEUE_ENABLE is true, which needs OSCAR_BACKEND=kubernetes' : undefined,
  ),
  check(['oidcEnable', 'oidcIssuers'], ({ oidcEnable, oidcIssuers }) =>
    oidcEnable && oidcIssuers.length === 0
      ? 'OIDC_ISSUERS is missing; with OIDC_ENABLE=true at least one issuer is required'
      : undefined,
  ),
  check(['oidcIssuers', 'oidcIssuerAliases', 'oidcEqualIssuers'], issuersProblem),
  check(['oidcIssuers', 'oidcIdTokenIssuers', 'oidcAudience'], idTokensProblem),
  check(['oidcClientId', 'oidcClientSecret'], ({ oidcClientId, oidcClientSecret }) =>
    oidcClientSecret && !oidcClientId
      ? 'OIDC_CLIENT_ID is missing; OIDC_CLIENT_SECRET is the secret of that client'
      : undefined,
  ),
  check(['backend', 'listen', 'localAllowRemote'], ({ backend, listen, localAllowRemote }) =>
    backend === 'local' && !isLoopback(listen.host) && !localAllowRemote
      ? `OSCAR_LISTEN is "${listen.host}", which other machines can reach, and with OSCAR_BACKEND=local jobs run as ` +
        'processes of this machine: any user who may create a service could run any program here. Listen on 127.0.0.1, ' +
        'or set OSCAR_LOCAL_ALLOW_REMOTE=true to allow it'
      : undefined,
  ),
];
