import { closeSync, existsSync, mkdirSync, openSync, readFileSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Secret } from '../../lib/secret.ts';
import { ClientError } from './errors.ts';
import { onInterrupt } from './interruption.ts';
import { IssuerClient, type Tokens } from './issuer.ts';
import { writePrivateFile } from './private-file.ts';

/** A login as it is stored. */
interface StoredLogin {
  readonly issuer: string;
  readonly clientId: string;
  readonly user?: string;
  readonly accessToken: string;
  readonly expiresAt: number;
  readonly refreshToken: string;
  /** Hash of the refresh token in oscar-cli's configuration that this login was created from. Another token there replaces it. */
  readonly seed?: string;
}

interface LoginsFile {
  readonly logins: Readonly<Record<string, StoredLogin>>;
  /** The key of the login for each cluster. */
  readonly clusters: Readonly<Record<string, string>>;
}

export type Login = Pick<StoredLogin, 'issuer' | 'clientId' | 'user' | 'seed'>;

/** Tokens are renewed this long before they expire, so that none expires on the way. */
const MARGIN_MS = 30_000;

/** A lock older than this belongs to a process that has died. Longer than any exchange with the issuer. */
const LOCK_STALE_MS = 30_000;
const LOCK_RETRY_MS = 50;

/**
 * The logins of a configuration, in a file next to it that only its owner can read. Refresh tokens rotate, so only one
 * process at a time uses one, and the others read the new one here.
 */
export class Logins {
  readonly path: string;

  constructor(configPath: string) {
    this.path = join(dirname(configPath), 'oscar-logins.json');
  }

  /** The login for a cluster. */
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
      throw new ClientError(
        'failed',
        `${login.issuer} returned no refresh token: does it allow the scope offline_access?`,
      );
    }
    await this.#locked(() =>
      this.#change((kept) => ({
        logins: { ...kept.logins, [key]: toStoredLogin(login, tokens, refreshToken) },
        clusters: { ...kept.clusters, ...Object.fromEntries(clusters.map((id) => [id, key])) },
      })),
    );
  }

  /** Removes a login. Returns its refresh token, to be revoked at the issuer. */
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

  /** A valid access token, renewed if necessary. */
  async accessToken(key: string): Promise<Secret> {
    const fresh = () => {
      const login = this.#read().logins[key];
      return login && login.expiresAt - MARGIN_MS > Date.now() ? new Secret(login.accessToken) : undefined;
    };
    return (
      fresh() ??
      this.#locked(async () => {
        // Another process may have renewed it while we waited for the lock.
        const renewed = fresh();
        if (renewed) return renewed;
        const login = this.#read().logins[key];
        if (!login) throw new ClientError('login-needed', 'not logged in: use `oscar login`');
        const tokens = await renew(login);
        const refreshToken = tokens.refreshToken ?? new Secret(login.refreshToken);
        this.#change((kept) => ({
          ...kept,
          logins: { ...kept.logins, [key]: toStoredLogin(login, tokens, refreshToken) },
        }));
        return tokens.accessToken;
      })
    );
  }

  #read(): LoginsFile {
    const none = { logins: {}, clusters: {} };
    if (!existsSync(this.path)) return none;
    try {
      return { ...none, ...(JSON.parse(readFileSync(this.path, 'utf8')) as Partial<LoginsFile>) };
    } catch (cause) {
      throw new ClientError(
        'login-needed',
        `${this.path} is damaged: delete it and log in again with \`oscar login\``,
        {
          cause,
        },
      );
    }
  }

  #change(how: (kept: LoginsFile) => LoginsFile): void {
    writePrivateFile(this.path, `${JSON.stringify(how(this.#read()), null, 2)}\n`);
  }

  async #locked<T>(work: () => T | Promise<T>): Promise<T> {
    const lock = `${this.path}.lock`;
    mkdirSync(dirname(lock), { recursive: true });
    while (!acquireLock(lock)) await pause(LOCK_RETRY_MS);
    const release = () => rmSync(lock, { force: true });
    try {
      return await onInterrupt(release, async () => work());
    } finally {
      release();
    }
  }
}

function acquireLock(lock: string): boolean {
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

async function renew({ issuer, clientId, refreshToken }: StoredLogin): Promise<Tokens> {
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

const toStoredLogin = ({ issuer, clientId, user, seed }: Login, tokens: Tokens, refreshToken: Secret): StoredLogin => ({
  issuer,
  clientId,
  ...(user !== undefined && { user }),
  ...(seed !== undefined && { seed }),
  accessToken: tokens.accessToken.reveal(),
  expiresAt: tokens.expiresAt,
  refreshToken: refreshToken.reveal(),
});
