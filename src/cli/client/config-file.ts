import { existsSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { type Document, parseDocument, stringify } from 'yaml';
import { closest } from '../../lib/closest.ts';
import { ClientError } from './errors.ts';
import { writePrivateFile } from './private-file.ts';

/** A cluster in oscar-cli's file format. `oidc_issuer` and `oidc_client_id` are additions that oscar-cli ignores. */
export interface ClusterEntry {
  readonly endpoint: string;
  readonly auth_user?: string;
  readonly auth_password?: string;
  readonly oidc_account_name?: string;
  readonly oidc_refresh_token?: string;
  readonly oidc_issuer?: string;
  readonly oidc_client_id?: string;
  readonly ssl_verify: boolean;
}

/** A store that belongs to no cluster. An addition that oscar-cli ignores. */
export interface ProviderEntry {
  readonly endpoint: string;
  readonly access_key: string;
  readonly secret_key: string;
  readonly region: string;
}

/** Keys that oscar-cli expects and this program does not use. */
const FOR_OSCAR_CLI = { memory: '256Mi', log_level: 'INFO' };

/** The configuration file: the given one, else the one of `oscar up` in this directory, else oscar-cli's. */
export function configPath(given: string | undefined, env: NodeJS.ProcessEnv): string {
  const named = given ?? env['OSCAR_CONFIG_FILE'];
  if (named) return resolve(named);
  const here = resolve('.oscar', 'config.yaml');
  return existsSync(here) ? here : join(env['HOME'] || homedir(), '.oscar-cli', 'config.yaml');
}

/** The clusters of a user, in the format of oscar-cli. Comments in the file survive changes. */
export class ConfigFile {
  readonly path: string;
  readonly clusters: ReadonlyMap<string, ClusterEntry>;
  readonly default: string | undefined;
  readonly #providers: ReadonlyMap<string, ProviderEntry>;
  readonly #document: Document;

  constructor(path: string, document: Document) {
    this.path = path;
    this.#document = document;
    const plain = document.toJS() as { oscar?: unknown; default?: unknown; providers?: unknown } | null;
    const listed = plain?.oscar ?? {};
    if (typeof listed !== 'object' || Array.isArray(listed)) throw badConfig(path, '"oscar" must be a map of clusters');
    this.clusters = new Map(Object.entries(listed).map(([id, raw]) => [id, readEntry(path, id, raw)]));
    const stores = plain?.providers ?? {};
    if (typeof stores !== 'object' || Array.isArray(stores))
      throw badConfig(path, '"providers" must be a map of stores');
    this.#providers = new Map(Object.entries(stores).map(([id, raw]) => [id, readProvider(path, id, raw)]));
    this.default = typeof plain?.default === 'string' && plain.default !== '' ? plain.default : undefined;
  }

  static read(path: string): ConfigFile {
    const text = existsSync(path) ? readFileSync(path, 'utf8') : '';
    const document = parseDocument(text, { prettyErrors: true });
    const [broken] = document.errors;
    // The parser's message may quote a password.
    if (broken) throw badConfig(path, `invalid YAML in line ${broken.linePos?.[0].line ?? '?'}`);
    return new ConfigFile(path, document);
  }

  /** The cluster with this id; without an id, the default or the only one. */
  cluster(id: string | undefined): { id: string; entry: ClusterEntry } {
    const ids = [...this.clusters.keys()];
    if (ids.length === 0) {
      throw new ClientError(
        'bad-input',
        `${this.path} has no clusters: add one with \`oscar clusters add ID URL\`, or start a federation here with \`oscar up\``,
      );
    }
    const wanted = id ?? this.default ?? (ids.length === 1 ? ids[0] : undefined);
    if (wanted === undefined) {
      throw new ClientError(
        'bad-input',
        `choose a cluster with --cluster, or set a default with \`oscar clusters default ID\`: ${ids.join(', ')}`,
      );
    }
    const entry = this.clusters.get(wanted);
    if (!entry) {
      throw new ClientError(
        'bad-input',
        `cluster "${wanted}" is not in ${this.path}${closest(wanted, ids) || '.'} It has ${ids.join(', ')}; \`oscar clusters add\` adds one`,
      );
    }
    return { id: wanted, entry };
  }

  /** The store with this name, such as `minio.shared`. */
  provider(id: string): ProviderEntry {
    const found = this.#providers.get(id);
    if (found) return found;
    const ids = [...this.#providers.keys()];
    const known = ids.length > 0 ? `It has ${ids.join(', ')}` : 'It has none';
    throw new ClientError(
      'bad-input',
      `the store "${id}" is not in ${this.path}${closest(id, ids) || '.'} ${known}; add its endpoint, access_key and secret_key under \`providers\``,
    );
  }

  add(id: string, entry: ClusterEntry): void {
    this.#document.setIn(['oscar', id], this.#document.createNode({ ...entry, ...FOR_OSCAR_CLI }));
    if (this.clusters.size === 0) this.#document.set('default', id);
    this.#write();
  }

  remove(id: string): void {
    this.cluster(id);
    this.#document.deleteIn(['oscar', id]);
    if (this.default === id) this.#document.delete('default');
    this.#write();
  }

  setDefault(id: string): void {
    this.cluster(id);
    this.#document.set('default', id);
    this.#write();
  }

  #write(): void {
    writePrivateFile(this.path, this.#document.toString());
  }
}

/** The text of a new configuration file, for `oscar up`. */
export function configText(
  clusters: ReadonlyMap<string, ClusterEntry>,
  standard: string,
  providers?: Readonly<Record<string, ProviderEntry>>,
): string {
  const entries = [...clusters].map(([id, entry]) => [id, { ...entry, ...FOR_OSCAR_CLI }]);
  return stringify({ oscar: Object.fromEntries(entries), default: standard, ...(providers && { providers }) });
}

function readEntry(path: string, id: string, raw: unknown): ClusterEntry {
  if (typeof raw !== 'object' || raw === null) throw badConfig(path, `cluster "${id}" must be a map`);
  const { endpoint, ssl_verify, ...rest } = raw as Record<string, unknown>;
  if (typeof endpoint !== 'string' || !/^https?:$/.test(URL.parse(endpoint)?.protocol ?? '')) {
    throw badConfig(path, `the endpoint of cluster "${id}" must be an http or https URL`);
  }
  const keys = ['auth_user', 'auth_password', 'oidc_account_name', 'oidc_refresh_token', 'oidc_issuer'] as const;
  const given = [...keys, 'oidc_client_id'].filter((key) => rest[key] !== undefined && rest[key] !== '');
  return {
    endpoint: endpoint.replace(/\/+$/, ''),
    ...Object.fromEntries(given.map((key) => [key, String(rest[key])])),
    ssl_verify: ssl_verify !== false,
  };
}

function readProvider(path: string, id: string, raw: unknown): ProviderEntry {
  const { endpoint, access_key, secret_key, region = 'us-east-1' } = (raw ?? {}) as Record<string, unknown>;
  if (typeof endpoint !== 'string' || !/^https?:$/.test(URL.parse(endpoint)?.protocol ?? '')) {
    throw badConfig(path, `the endpoint of the store "${id}" must be an http or https URL`);
  }
  if (typeof access_key !== 'string' || typeof secret_key !== 'string') {
    throw badConfig(path, `the store "${id}" needs access_key and secret_key`);
  }
  return { endpoint: endpoint.replace(/\/+$/, ''), access_key, secret_key, region: String(region) };
}

const badConfig = (path: string, problem: string) =>
  new ClientError('bad-input', `${path} is invalid: ${problem}. Correct it, or choose another file with --config`);
