import type { Command } from 'commander';
import { Secret } from '../../base/secret.ts';
import { ClusterClient } from './cluster-client.ts';
import { ConfigFile, configPath } from './config-file.ts';
import { credentialsFor } from './credentials.ts';
import { ClientError } from './errors.ts';
import { Logins } from './logins.ts';
import { FORMATS, type Format } from './table.ts';
import { Terminal } from './terminal.ts';

/** Options that every command has. */
export interface CommonOptions {
  readonly output?: string;
  readonly cluster?: string;
  readonly quiet?: boolean;
  readonly config?: string;
  readonly showSecrets?: boolean;
}

/** What a command works with: who asks, where, and how answers are shown. */
export class Session {
  readonly env: NodeJS.ProcessEnv;
  readonly terminal: Terminal;
  readonly format: Format;
  readonly showSecrets: boolean;
  readonly #options: CommonOptions;
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

  /** For one of the commands below `oscar`. */
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

  /** What `--cluster` says, if it does. */
  get chosen(): string | undefined {
    return this.#options.cluster;
  }

  /** A cluster: that of `--cluster`, else the given one, else the default. */
  async cluster(id?: string): Promise<ClusterClient> {
    return this.clusterNamed(this.#options.cluster ?? id);
  }

  async clusterNamed(id: string | undefined): Promise<ClusterClient> {
    const found = this.config.cluster(id);
    return new ClusterClient(found.id, found.entry, await credentialsFor(found.id, found.entry, this.logins));
  }

  /** Is the answer for a program? */
  get isForPrograms(): boolean {
    return this.format === 'json' || this.format === 'yaml';
  }
}

const isFormat = (text: string): text is Format => (FORMATS as readonly string[]).includes(text);

/** As whom a service is invoked: the administrator may not, but sees its token (contract §5.1). */
export async function invoker(cluster: ClusterClient, service: string): Promise<Secret> {
  if (cluster.credentials.kind === 'bearer') return cluster.credentials.authorization();
  const about = `service "${service}"`;
  const { token } = (
    await cluster.call('GET', `/system/services/${encodeURIComponent(service)}`, { about })
  ).json() as { token: string };
  return new Secret(`Bearer ${token}`);
}
