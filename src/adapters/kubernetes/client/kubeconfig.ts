import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { promisify } from 'node:util';
import { parse } from 'yaml';
import { isProxyUrl } from '../../../lib/http/index.ts';

/** Where an API server is, how to verify it, and how the manager identifies itself there. */
export interface KubeConfig {
  readonly server: URL;
  readonly proxy?: URL;
  readonly ca?: string;
  readonly verify: boolean;
  readonly servername?: string;
  /** Reads the files, or runs the program, that the configuration names. */
  credentials(): Promise<KubeCredentials>;
}

export interface KubeCredentials {
  /** The value of the header `Authorization`. */
  readonly authorization?: string;
  /** The client's certificate and key, as PEM. */
  readonly cert?: string;
  readonly key?: string;
  /** Milliseconds since 1970 until which they need not be read again. */
  readonly validUntil?: number;
}

/** Where Kubernetes puts the credentials of a pod's service account. */
const SERVICE_ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount';

/** The service account of the pod that this process runs in. Its token is a file that the kubelet renews. */
export async function readServiceAccount(
  { KUBERNETES_SERVICE_HOST: host = '', KUBERNETES_SERVICE_PORT: port = '443' }: NodeJS.ProcessEnv,
  folder = SERVICE_ACCOUNT,
): Promise<KubeConfig> {
  return {
    server: new URL(`https://${host.includes(':') ? `[${host}]` : host}:${port}`),
    ca: await readFile(`${folder}/ca.crt`, 'utf8'),
    verify: true,
    credentials: async () => ({ authorization: bearer(await readFile(`${folder}/token`, 'utf8')) }),
  };
}

/** Reads the current context of a kubeconfig file. Files that it names are relative to its own folder, as kubectl has it. */
export async function readKubeConfig(file: string): Promise<KubeConfig> {
  const config = asRecord(parse(await readFile(file, 'utf8')) ?? {}, 'it');
  const context = named(config, 'contexts', 'context', text(config, 'current-context'));
  const cluster = context && named(config, 'clusters', 'cluster', text(context, 'cluster'));
  if (!cluster) throw new Error('it names no cluster as its current context');
  const user = named(config, 'users', 'user', text(context, 'user')) ?? {};
  rejectUnsupported(user);

  const inFolder = (path: string) => readFile(resolve(dirname(file), path), 'utf8');
  const proxy = text(cluster, 'proxy-url');
  const servername = text(cluster, 'tls-server-name');
  const ca = await inlineOrFile(cluster, 'certificate-authority', inFolder);
  return {
    server: toUrl(text(cluster, 'server') ?? '', 'server'),
    ...(proxy !== undefined && { proxy: toProxy(proxy) }),
    ...(ca !== undefined && { ca }),
    ...(servername !== undefined && { servername }),
    verify: cluster['insecure-skip-tls-verify'] !== true,
    credentials: () => (user['exec'] ? runExec(asRecord(user['exec'], 'exec'), file) : readCredentials(user, inFolder)),
  };
}

type Fields = Readonly<Record<string, unknown>>;

/** Rejects settings of a user that change the identity of requests. Ignoring them would send requests as another user. */
function rejectUnsupported(user: Fields): void {
  if (user['auth-provider']) {
    throw new Error('its user has an auth-provider, which Kubernetes has removed: use exec, a token or a certificate');
  }
  const impersonation = ['as', 'as-uid', 'as-groups', 'as-user-extra'].find((key) => user[key] !== undefined);
  if (impersonation !== undefined) {
    throw new Error(
      `its user has ${impersonation}: impersonation is not supported, use credentials of the account itself`,
    );
  }
}

type ReadFile = (path: string) => Promise<string>;

async function readCredentials(user: Fields, inFolder: ReadFile): Promise<KubeCredentials> {
  const cert = await inlineOrFile(user, 'client-certificate', inFolder);
  const key = await inlineOrFile(user, 'client-key', inFolder);
  return {
    ...(cert !== undefined && { cert }),
    ...(key !== undefined && { key }),
    ...(await readAuthorization(user, inFolder)),
  };
}

async function readAuthorization(user: Fields, inFolder: ReadFile): Promise<Pick<KubeCredentials, 'authorization'>> {
  const tokenFile = text(user, 'tokenFile');
  const token = tokenFile === undefined ? text(user, 'token') : await inFolder(tokenFile);
  if (token !== undefined) return { authorization: bearer(token) };
  const username = text(user, 'username');
  if (username === undefined) return {};
  const pair = Buffer.from(`${username}:${text(user, 'password') ?? ''}`);
  return { authorization: `Basic ${pair.toString('base64')}` };
}

/** How long a credential plugin may take. It may ask a cloud; nobody can answer questions that it prints. */
const EXEC_MS = 60_000;

/** Runs a credential plugin: https://kubernetes.io/docs/reference/config-api/client-authentication.v1/ */
async function runExec(exec: Fields, file: string): Promise<KubeCredentials> {
  const command = text(exec, 'command') ?? '';
  const info = { apiVersion: text(exec, 'apiVersion'), kind: 'ExecCredential', spec: { interactive: false } };
  const pairs = list(exec, 'env').map((each) => [text(each, 'name') ?? '', text(each, 'value') ?? '']);
  const env = { ...process.env, ...Object.fromEntries(pairs), KUBERNETES_EXEC_INFO: JSON.stringify(info) };
  const args = Array.isArray(exec['args']) ? exec['args'].map(String) : [];
  // A path with a slash is relative to the kubeconfig, a bare name is searched in PATH.
  const program = command.includes('/') ? resolve(dirname(file), command) : command;
  try {
    const { stdout } = await promisify(execFile)(program, args, { env, timeout: EXEC_MS });
    const status = asRecord(asRecord(JSON.parse(stdout), 'its answer')['status'], 'status');
    const [token, cert, key] = ['token', 'clientCertificateData', 'clientKeyData'].map((name) => text(status, name));
    if (token === undefined && cert === undefined) throw new Error('its answer has neither a token nor a certificate');
    const expires = Date.parse(text(status, 'expirationTimestamp') ?? '');
    return {
      ...(token !== undefined && { authorization: bearer(token) }),
      ...(cert !== undefined && { cert }),
      ...(key !== undefined && { key }),
      // Without a time it holds until the server rejects it.
      validUntil: Number.isNaN(expires) ? Number.POSITIVE_INFINITY : expires,
    };
  } catch (cause) {
    const hint = text(exec, 'installHint');
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`the credential plugin ${command} failed: ${reason}${hint === undefined ? '' : ` (${hint})`}`, {
      cause,
    });
  }
}

const bearer = (token: string) => `Bearer ${token.trim()}`;

/** `<name>-data` is the content in base64, `<name>` is a file that has it. */
async function inlineOrFile(fields: Fields, name: string, inFolder: ReadFile): Promise<string | undefined> {
  const data = text(fields, `${name}-data`);
  if (data !== undefined) return Buffer.from(data, 'base64').toString();
  const path = text(fields, name);
  return path === undefined ? undefined : inFolder(path);
}

/** The entry of a list as `contexts: [{ name: x, context: {…} }]`. */
function named(config: Fields, key: string, content: string, name: string | undefined): Fields | undefined {
  const entry = name === undefined ? undefined : list(config, key).find((each) => each['name'] === name);
  return entry && asRecord(entry[content] ?? {}, `the ${content} "${name}"`);
}

function list(fields: Fields, key: string): readonly Fields[] {
  const value = fields[key] ?? [];
  if (!Array.isArray(value)) throw new Error(`${key} is not a list`);
  return value.map((each) => asRecord(each, `an entry of ${key}`));
}

function text(fields: Fields, key: string): string | undefined {
  const value = fields[key] ?? '';
  if (typeof value !== 'string') throw new Error(`${key} is not a text`);
  return value === '' ? undefined : value;
}

function asRecord(value: unknown, what: string): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Error(`${what} is not a map`);
  return value as Fields;
}

function toUrl(value: string, key: string): URL {
  if (!URL.canParse(value)) throw new Error(`${key} is not a URL: "${value}"`);
  return new URL(value);
}

function toProxy(value: string): URL {
  const url = toUrl(value, 'proxy-url');
  if (!isProxyUrl(url)) throw new Error(`proxy-url has to begin with http, https or socks5: "${value}"`);
  return url;
}
