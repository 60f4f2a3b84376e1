import { hash, randomBytes } from 'node:crypto';
import { Secret } from '../../lib/secret.ts';
import { type Policy, readPolicy, type S3Identity } from '../access/authorization.ts';
import { S3Error } from '../lib/errors.ts';
import { equalConstantTime, SigningSecret } from '../signature/signature-v4.ts';
import type { StoreDatabase } from './database.ts';

/**
 * Encrypts secrets on disk. The place is authenticated too, so one sealed secret cannot be used in the place of
 * another.
 */
export interface IdentitySeal {
  seal(text: string, place: readonly [string, ...string[]]): Uint8Array;
  open(bytes: Uint8Array, place: readonly [string, ...string[]]): string;
}

/** An access key that can sign requests, with its secret and its identity. */
export interface Signer {
  readonly accessKey: string;
  readonly secret: SigningSecret;
  readonly identity: S3Identity;
  /** The name in events: the user, also for keys of sessions and jobs. */
  readonly principal: string;
  readonly tokenHash?: string;
  /** Milliseconds. */
  readonly expires?: number;
}

export interface SessionKeys {
  /** For `revoke`; equal to the access key. */
  readonly id: string;
  readonly accessKey: string;
  readonly secretKey: Secret;
  readonly sessionToken: Secret;
  /** Milliseconds. */
  readonly expiresAt: number;
}

export interface NewSession {
  readonly kind: 'job' | 'session';
  readonly parent: string;
  /** The policy document. */
  readonly policy: string | undefined;
  /** Milliseconds. */
  readonly ttl: number;
  /** The keys are used only in this process: they are kept in memory and end with it. */
  readonly inProcess?: boolean;
  /** All keys with the same purpose can be revoked together. Not used with `inProcess`. */
  readonly purpose?: string;
}

interface SessionRow {
  kind: 'job' | 'session';
  parent: string;
  secret: Uint8Array;
  token_hash: string;
  policy: string | null;
  expires: number;
}

/** The access keys of the store. They are cached; every change removes the affected keys from the cache. */
export class Identities {
  readonly #database: StoreDatabase;
  readonly #seal: IdentitySeal;
  readonly #now: () => number;
  readonly #manager: Signer;
  readonly #cache = new Map<string, Signer>();
  /** Access keys that are only in memory. */
  readonly #inMemory = new Set<string>();
  readonly #statements: ReturnType<typeof prepare>;

  constructor(
    database: StoreDatabase,
    { seal, now, manager }: { seal: IdentitySeal; now: () => number; manager: { accessKey: string; secret: Secret } },
  ) {
    this.#database = database;
    this.#seal = seal;
    this.#now = now;
    this.#statements = prepare(database);
    const { accessKey, secret } = manager;
    const identity: S3Identity = { kind: 'manager' };
    this.#manager = { accessKey, secret: new SigningSecret(secret.reveal()), identity, principal: accessKey };
  }

  /** Throws if the access key is unknown or expired, or if the session token is not the one issued with it. */
  signer(accessKey: string, token: string | undefined): Signer {
    const signer = this.find(accessKey);
    if (!signer) throw new S3Error('InvalidAccessKeyId');
    if (signer.tokenHash !== undefined && !equalConstantTime(signer.tokenHash, hashToken(token ?? ''))) {
      throw new S3Error('InvalidTokenId');
    }
    if (signer.tokenHash === undefined && token) throw new S3Error('InvalidTokenId');
    if (signer.expires !== undefined && signer.expires <= this.#now()) throw new S3Error('ExpiredToken');
    return signer;
  }

  /** Throws if the key has been revoked, changed or expired since the request began: an upload may take long. */
  checkStillValid(signer: Signer): void {
    if (this.find(signer.accessKey) !== signer) {
      throw new S3Error('InvalidAccessKeyId', 'The access key was revoked or changed before the request was complete.');
    }
    if (signer.expires !== undefined && signer.expires <= this.#now()) throw new S3Error('ExpiredToken');
  }

  find(accessKey: string): Signer | undefined {
    if (accessKey === this.#manager.accessKey) return this.#manager;
    const known = this.#cache.get(accessKey);
    if (known) return known;
    const loaded = this.#load(accessKey);
    if (loaded) this.#cache.set(accessKey, loaded);
    return loaded;
  }

  /** A new secret also revokes the user's STS sessions, but not the keys of jobs. The same secret again is a no-op. */
  async putUser(accessKey: string, secret: Secret): Promise<void> {
    if (accessKey === this.#manager.accessKey) {
      throw new S3Error('InvalidArgument', "This is the manager's own access key: choose another.");
    }
    const place = ['object-store', 'user', accessKey] as const;
    const known = this.#statements.user.get(accessKey);
    // The manager repeats this call for users that exist. Their running requests and sessions must continue.
    if (known && secret.equals(this.#seal.open(known.secret, place))) return;
    const sealed = this.#seal.seal(secret.reveal(), place);
    await this.#database.write(
      () => {
        this.#statements.putUser.run(accessKey, sealed);
        this.#statements.dropSessions.run(accessKey, 'session');
      },
      () => this.#forget(accessKey, ({ kind }) => kind !== 'job'),
    );
  }

  async removeUser(accessKey: string): Promise<void> {
    await this.#database.remove(
      () => {
        this.#statements.removeUser.run(accessKey);
        this.#statements.dropSessions.run(accessKey, 'session');
        this.#statements.dropSessions.run(accessKey, 'job');
      },
      () => this.#forget(accessKey, () => true),
    );
  }

  async issue({ kind, parent, policy, ttl, inProcess = false, purpose }: NewSession): Promise<SessionKeys> {
    const rights = policy === undefined ? undefined : readPolicy(policy);
    const accessKey = `OSCAR${randomBytes(10).toString('hex').toUpperCase().slice(0, 15)}`;
    const secretKey = randomBytes(30).toString('base64url');
    const sessionToken = randomBytes(48).toString('base64url');
    const tokenHash = hashToken(sessionToken);
    const expiresAt = this.#now() + ttl;
    this.#forgetExpired();
    if (inProcess) {
      const identity = toIdentity(kind, parent, rights);
      const signing = new SigningSecret(secretKey);
      this.#cache.set(accessKey, {
        accessKey,
        secret: signing,
        identity,
        principal: parent,
        tokenHash,
        expires: expiresAt,
      });
      this.#inMemory.add(accessKey);
    } else {
      const sealed = this.#seal.seal(secretKey, ['object-store', 'session', accessKey]);
      await this.#database.write(() => {
        this.#statements.dropExpired.run(this.#now());
        const given = [kind, parent, sealed, tokenHash, policy ?? null, expiresAt, purpose ?? null] as const;
        this.#statements.putSession.run(accessKey, ...given);
      });
    }
    const [secret, token] = [new Secret(secretKey), new Secret(sessionToken)];
    return { id: accessKey, accessKey, secretKey: secret, sessionToken: token, expiresAt };
  }

  async revoke(accessKey: string): Promise<void> {
    if (this.#inMemory.delete(accessKey)) {
      this.#cache.delete(accessKey);
      return;
    }
    await this.#database.remove(
      () => void this.#statements.dropSession.run(accessKey),
      () => this.#cache.delete(accessKey),
    );
  }

  /** Revokes all keys that were issued for this purpose. */
  async revokeFor(purpose: string): Promise<void> {
    await this.#database.remove(
      () => this.#statements.dropPurpose.all(purpose),
      (dropped) => dropped.forEach(({ access_key: accessKey }) => this.#cache.delete(accessKey)),
    );
  }

  #forget(user: string, isAffected: (identity: S3Identity) => boolean): void {
    for (const [accessKey, { principal, identity }] of this.#cache) {
      if (principal !== user || !isAffected(identity)) continue;
      this.#cache.delete(accessKey);
      this.#inMemory.delete(accessKey);
    }
  }

  #forgetExpired(): void {
    const now = this.#now();
    for (const [accessKey, { expires }] of this.#cache) {
      if (expires === undefined || expires > now) continue;
      this.#cache.delete(accessKey);
      this.#inMemory.delete(accessKey);
    }
  }

  #load(accessKey: string): Signer | undefined {
    const user = this.#statements.user.get(accessKey);
    if (user) {
      const secret = new SigningSecret(this.#seal.open(user.secret, ['object-store', 'user', accessKey]));
      return { accessKey, secret, identity: { kind: 'user', user: accessKey }, principal: accessKey };
    }
    const session = this.#statements.session.get(accessKey);
    if (!session) return undefined;
    const { kind, parent, policy, token_hash: tokenHash, expires } = session;
    const secret = new SigningSecret(this.#seal.open(session.secret, ['object-store', 'session', accessKey]));
    const identity = toIdentity(kind, parent, policy === null ? undefined : readPolicy(policy));
    return { accessKey, secret, identity, principal: parent, tokenHash, expires };
  }
}

/** A job without a policy has no rights. */
const NO_RIGHTS: Policy = { statements: [] };

function toIdentity(kind: SessionRow['kind'], parent: string, policy: Policy | undefined): S3Identity {
  if (kind === 'job') return { kind, user: parent, policy: policy ?? NO_RIGHTS };
  return { kind: 'session', user: parent, ...(policy && { policy }) };
}

const hashToken = (token: string) => hash('sha256', token, 'hex');

function prepare(database: StoreDatabase) {
  return {
    user: database.query<{ secret: Uint8Array }>('SELECT secret FROM user WHERE access_key = ?'),
    putUser: database.query('INSERT OR REPLACE INTO user (access_key, secret) VALUES (?, ?)'),
    removeUser: database.query('DELETE FROM user WHERE access_key = ?'),
    session: database.query<SessionRow>(
      'SELECT kind, parent, secret, token_hash, policy, expires FROM session WHERE access_key = ?',
    ),
    putSession: database.query(
      `INSERT INTO session (access_key, kind, parent, secret, token_hash, policy, expires, purpose)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    dropSession: database.query('DELETE FROM session WHERE access_key = ?'),
    dropPurpose: database.query<{ access_key: string }>('DELETE FROM session WHERE purpose = ? RETURNING access_key'),
    dropSessions: database.query('DELETE FROM session WHERE parent = ? AND kind = ?'),
    dropExpired: database.query('DELETE FROM session WHERE expires <= ?'),
  };
}
