import { hash } from 'node:crypto';
import type { Command } from 'commander';
import { Secret } from '../../lib/secret.ts';
import { type ClientCredentials, ClusterClient } from './cluster-client.ts';
import { type ClusterEntry, ConfigFile, configPath } from './config-file.ts';
import { ClientError } from './errors.ts';
import { Logins } from './logins.ts';
import { FORMATS, type Format } from './table.ts';
import { Terminal } from './terminal.ts';

/** Options that every command has. */
interface CommonOptions {
  readonly output?: string;
  readonly cluster?: string;
  readonly quiet?: boolean;
  readonly config?: string;
  readonly showSecrets?: boolean;
  readonly as?: string;
}

/** The context of a command: the user, the clusters, and the output format. */
export class Session {
  readonly env: NodeJS.ProcessEnv;
  readonly terminal: Terminal;
  readonly format: Format;
  readonly showSecrets: boolean;
  readonly #options: CommonOptions;
  readonly #noted = new Set<string>();
  #config: ConfigFile | undefined;

  constructor(options: CommonOptions, env: NodeJS.ProcessEnv) {
    this.env = env;
    this.#options = options;
    this.terminal = new Terminal({ out: process.stdout, err: process.stderr }, env, options.quiet ?? false);
    const format = options.output ?? 'table';
    if (!isFormat(format)) {
      throw new ClientError('usage', `-o "${format}" is not one of ${FORMATS.join(', ')}`);
    }
    this.format = format;
    this.showSecrets = options.showSecrets ?? false;
  }

  static of(command: Command, env: NodeJS.ProcessEnv): Session {
    return new Session(command.optsWithGlobals<CommonOptions>(), env);
  }

  get config(): ConfigFile {
    this.#config ??= ConfigFile.read(configPath(this.#options.config, this.env));
    return this.#config;
  }

  get logins(): Logins {
    return new Logins(this.config.path);
  }

  /** The value of `--cluster`. */
  get chosen(): string | undefined {
    return this.#options.cluster;
  }

  /** The cluster of `--cluster`, else the given one, else the default. */
  async cluster(id?: string): Promise<ClusterClient> {
    return this.clusterNamed(this.#options.cluster ?? id);
  }

  async clusterNamed(id: string | undefined): Promise<ClusterClient> {
    const found = this.config.cluster(id);
    const credentials =
      this.#options.as === ADMIN
        ? administratorCredentials(found.id, found.entry)
        : await loadCredentials(found.id, found.entry, this.logins);
    return new ClusterClient(found.id, found.entry, credentials, () => this.#noteAdministrator(found.id, credentials));
  }

  /** Says once for each cluster that a command changes something as the administrator, unless the user asked for it. */
  #noteAdministrator(id: string, { kind }: ClientCredentials): void {
    if (kind !== 'basic' || this.#options.as === ADMIN || this.#noted.has(id)) return;
    this.#noted.add(id);
    this.terminal.note(`as the administrator of ${id} (\`oscar login\` to be a user, --as ${ADMIN} to hide this note)`);
  }

  /** Whether the output is for a program. */
  get isForPrograms(): boolean {
    return this.format === 'json' || this.format === 'yaml';
  }
}

/** The only value of `--as`. */
export const ADMIN = 'admin';

const isFormat = (text: string): text is Format => (FORMATS as readonly string[]).includes(text);

/** The authorization for calling a service. The administrator must use the service's token (docs/security.md#who-asks). */
export async function invokerAuthorization(cluster: ClusterClient, service: string): Promise<Secret> {
  if (cluster.credentials.kind === 'bearer') return cluster.credentials.authorization();
  const about = `service "${service}"`;
  const { token } = (
    await cluster.call('GET', `/system/services/${encodeURIComponent(service)}`, { about })
  ).json() as { token: string };
  return new Secret(`Bearer ${token}`);
}

/** The credentials for a cluster: those of the login, otherwise those of the configuration, as in oscar-cli. */
export async function loadCredentials(id: string, entry: ClusterEntry, logins: Logins): Promise<ClientCredentials> {
  const login = logins.at(id);
  if (login && !login.login.seed) return bearer(() => logins.accessToken(login.key), login.login.user);
  if (entry.oidc_refresh_token) {
    const key = await loginFromConfig(id, entry.oidc_refresh_token, logins);
    return bearer(() => logins.accessToken(key), logins.find(key)?.user);
  }
  if (entry.auth_user !== undefined) return administratorCredentials(id, entry);
  const how = entry.oidc_issuer ? '' : ' --issuer URL';
  const agent = entry.oidc_account_name
    ? ` (the oidc-agent account "${entry.oidc_account_name}" is not supported)`
    : '';
  throw new ClientError(
    'login-needed',
    `not logged in to cluster "${id}"${agent}: use \`oscar login --cluster ${id}${how}\``,
  );
}

function administratorCredentials(id: string, { auth_user, auth_password = '' }: ClusterEntry): ClientCredentials {
  if (auth_user === undefined) {
    throw new ClientError(
      'login-needed',
      `the configuration has no administrator's password for cluster "${id}": add it with \`oscar clusters add\``,
    );
  }
  const pair = Buffer.from(`${auth_user}:${auth_password}`).toString('base64');
  return { kind: 'basic', user: auth_user, authorization: async () => new Secret(`Basic ${pair}`) };
}

function bearer(token: () => Promise<Secret>, user: string | undefined): ClientCredentials {
  const authorization = async () => new Secret(`Bearer ${(await token()).reveal()}`);
  return { kind: 'bearer', ...(user !== undefined && { user }), authorization };
}

/**
 * Creates a login from the refresh token in oscar-cli's configuration, which names its issuer and client
 * (docs/go-manager.md#federation-and-delegation).
 */
async function loginFromConfig(id: string, token: string, logins: Logins): Promise<string> {
  const key = `configuration of ${id}`;
  const seed = hash('sha256', token);
  if (logins.find(key)?.seed === seed) return key;
  const { iss, azp } = readClaims(token);
  if (typeof iss !== 'string' || typeof azp !== 'string') {
    throw new ClientError(
      'login-needed',
      `the oidc_refresh_token of cluster "${id}" does not name its issuer: use \`oscar login --cluster ${id} --issuer URL\``,
    );
  }
  const expired = { accessToken: new Secret(''), expiresAt: 0, refreshToken: new Secret(token) };
  await logins.put(key, { issuer: iss, clientId: azp, seed }, expired, []);
  return key;
}

function readClaims(token: string): { iss?: unknown; azp?: unknown } {
  try {
    return JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as object;
  } catch {
    return {};
  }
}
