import { closeSync, existsSync, mkdirSync, openSync, readFileSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Secret } from '../../lib/secret.ts';
import { ClientError } from './errors.ts';
import { onInterrupt } from './interruption.ts';
import { IssuerClient, type Tokens } from './issuer.ts';
import { writePrivateFile } from './private-file.ts';

/** What `oscar login` got, as it is kept. */
interface KeptLogin {
  readonly issuer: string;
  readonly clientId: string;
  readonly user?: string;
  readonly accessToken: string;
  readonly expiresAt: number;
  readonly refreshToken: string;
  /** Of the refresh token of oscar-cli's configuration that it began with: another one there counts again. */
  readonly seed?: string;
}

interface Kept {
  readonly logins: Readonly<Record<string, KeptLogin>>;
  /** Which login is used at a cluster. */
  readonly clusters: Readonly<Record<string, string>>;
}

export type Login = Pick<KeptLogin, 'issuer' | 'clientId' | 'user' | 'seed'>;

/** A token that ends on its way helps nobody. */
const MARGIN_MS = 30_000;

/** Longer than any exchange takes: whoever held the lock is no more. */
const LOCK_STALE_MS = 30_000;
const LOCK_RETRY_MS = 50;

/**
 * The logins beside a configuration, in a file that only its owner reads. Refresh tokens are spent by their use, so only
 * one process at a time exchanges one, and the others find the new one here.
 */
export class Logins {
  readonly path: string;

  constructor(configPath: string) {
    this.path = join(dirname(configPath), 'oscar-logins.json');
  }

  /** The login used at a cluster. */
  at(cluster: string): { key: string; login: Login } | undefined {
    const kept = this.#read();
    const key = kept.clusters[cluster];
    const login = key === undefined ? undefined : kept.logins[key];
    return key !== undefined && login ? { key, login } : undefined;
  }

  find(key: string): Login | undefined {
    return this.#read().logins[key];
  }

  async put(key: string, login: Login, tokens: Tokens, clusters: readonly string[]): Promise<void> {
    const { refreshToken } = tokens;
    if (!refreshToken) {
      throw new ClientError('failed', `${login.issuer} gave no refresh token: does it allow the scope offline_access?`);
    }
    await this.#locked(() =>
      this.#change((kept) => ({
        logins: { ...kept.logins, [key]: keptOf(login, tokens, refreshToken) },
        clusters: { ...kept.clusters, ...Object.fromEntries(clusters.map((id) => [id, key])) },
      })),
    );
  }

  /** Forgets a login; resolves to its refresh token, for the issuer to forget it too. */
  async remove(key: string): Promise<Secret | undefined> {
    return this.#locked(() => {
      const token = this.#read().logins[key]?.refreshToken;
      this.#change(({ logins: { [key]: _, ...logins }, clusters }) => ({
        logins,
        clusters: Object.fromEntries(Object.entries(clusters).filter(([, each]) => each !== key)),
      }));
      return token === undefined ? undefined : new Secret(token);
    });
  }

  /** An access token that is good for a while, renewed if need be. */
  async accessToken(key: string): Promise<Secret> {
    const fresh = () => {
      const login = this.#read().logins[key];
      return login && login.expiresAt - MARGIN_MS > Date.now() ? new Secret(login.accessToken) : undefined;
    };
    return (
      fresh() ??
      this.#locked(async () => {
        // Whoever had the lock before may have done it.
        const renewed = fresh();
        if (renewed) return renewed;
        const login = this.#read().logins[key];
        if (!login) throw new ClientError('login-needed', 'you are not logged in: use `oscar login`');
        const tokens = await renew(login);
        const refreshToken = tokens.refreshToken ?? new Secret(login.refreshToken);
        this.#change((kept) => ({ ...kept, logins: { ...kept.logins, [key]: keptOf(login, tokens, refreshToken) } }));
        return tokens.accessToken;
      })
    );
  }

  #read(): Kept {
    const none = { logins: {}, clusters: {} };
    if (!existsSync(this.path)) return none;
    try {
      return { ...none, ...(JSON.parse(readFileSync(this.path, 'utf8')) as Partial<Kept>) };
    } catch (cause) {
      throw new ClientError(
        'login-needed',
        `${this.path} is damaged: remove it, and log in again with \`oscar login\``,
        {
          cause,
        },
      );
    }
  }

  #change(how: (kept: Kept) => Kept): void {
    writePrivateFile(this.path, `${JSON.stringify(how(this.#read()), null, 2)}\n`);
  }

  async #locked<T>(work: () => T | Promise<T>): Promise<T> {
    const lock = `${this.path}.lock`;
    mkdirSync(dirname(lock), { recursive: true });
    while (!take(lock)) await pause(LOCK_RETRY_MS);
    const leave = () => rmSync(lock, { force: true });
    try {
      return await onInterrupt(leave, async () => work());
    } finally {
      leave();
    }
  }
}

function take(lock: string): boolean {
  try {
    closeSync(openSync(lock, 'wx', 0o600));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    const age = Date.now() - (statSync(lock, { throwIfNoEntry: false })?.mtimeMs ?? Date.now());
    if (age > LOCK_STALE_MS) rmSync(lock, { force: true });
    return false;
  }
}

async function renew({ issuer, clientId, refreshToken }: KeptLogin): Promise<Tokens> {
  const client = await IssuerClient.discover(issuer, clientId);
  try {
    return await client.refresh(new Secret(refreshToken));
  } catch (error) {
    if (!(error instanceof ClientError) || error.code !== 'login-needed') throw error;
    throw new ClientError('login-needed', `your login at ${issuer} has expired: log in again with \`oscar login\``, {
      cause: error,
    });
  }
}

const keptOf = ({ issuer, clientId, user, seed }: Login, tokens: Tokens, refreshToken: Secret): KeptLogin => ({
  issuer,
  clientId,
  ...(user !== undefined && { user }),
  ...(seed !== undefined && { seed }),
  accessToken: tokens.accessToken.reveal(),
  expiresAt: tokens.expiresAt,
  refreshToken: refreshToken.reveal(),
});
