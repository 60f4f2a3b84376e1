import { pino } from 'pino';
import { type Issuer, type IssuerOptions, startIssuer } from '../../../test/support/issuer.ts';
import { ALICE, type TestUser } from '../../../test/support/issuer-users.ts';
import { Secret } from '../../lib/secret.ts';
import { findGrant, type Submitter } from '../grants/attach.ts';
import type { GrantRecord } from '../grants/grant.ts';
import { openVault, submit, type TestVault } from '../grants/vault.fixture.ts';
import { createTokenVerifier } from '../oidc/token-verifier.ts';
import { AccessTokenSource, type AccessTokenSourceOptions } from './access-token-source.ts';

export interface Exchange extends AsyncDisposable {
  readonly issuer: Issuer;
  readonly vault: TestVault;
  readonly tokens: AccessTokenSource;
  /** The lines of the log. */
  readonly lines: string[];
  /** Advances the clock. */
  wait(ms: number): void;
  /** The token source of another manager with the same vault. */
  replica(options?: Partial<AccessTokenSourceOptions>): AccessTokenSource;
  /** `user` sends a refresh token of `of` for a service. Returns the token. */
  submit(service: string, user?: TestUser, of?: TestUser): Promise<string>;
  /** The grant of a service. */
  grant(service: string, owner?: TestUser): Promise<GrantRecord>;
}

interface ExchangeOptions extends IssuerOptions {
  readonly source?: Partial<AccessTokenSourceOptions>;
  /** Reorders concurrent requests to the vault. */
  readonly random?: () => number;
}

export const toService = (uid: string, { sub }: TestUser = ALICE) => ({ uid, owner: sub });
export const asUser = ({ sub }: TestUser, issuer?: string): Submitter => ({ kind: 'user', uid: sub, issuer });

/** A token source with a real issuer and a real vault. */
export async function openExchange({ source: changes, random, ...options }: ExchangeOptions = {}): Promise<Exchange> {
  const issuer = await startIssuer(options);
  const vault = openVault(random);
  let offset = 0;
  vault.now = () => Date.now() + offset;
  const lines: string[] = [];
  const log = pino({ level: 'trace' }, { write: (line: string) => void lines.push(line) });

  const replica = (more: Partial<AccessTokenSourceOptions> = {}) =>
    new AccessTokenSource({
      vault,
      issuers: [issuer.url],
      verifier: createTokenVerifier({ issuers: [issuer.url], groups: [], usersAdmin: [], logger: log }),
      client: { id: 'oscar', ...(options.clientSecret && { secret: new Secret(options.clientSecret) }) },
      log,
      ...changes,
      ...more,
    });

  return {
    issuer,
    vault,
    tokens: replica(),
    lines,
    wait: (ms) => void (offset += ms),
    replica,
    async submit(service, user = ALICE, of = user) {
      const { refreshToken } = await issuer.tokensFor(of);
      await submit(refreshToken, asUser(user, issuer.url), service, vault);
      return refreshToken;
    },
    async grant(service, owner = ALICE) {
      const found = await findGrant(toService(service, owner), vault);
      if (!found) throw new Error(`${service} has no grant`);
      return found;
    },
    async [Symbol.asyncDispose]() {
      await issuer.stop();
      await vault[Symbol.asyncDispose]();
    },
  };
}

/** The audit records in the log. */
export const auditRecords = (lines: readonly string[]) =>
  lines.map((line) => JSON.parse(line) as Record<string, unknown>).filter(({ audit }) => audit === 'grant');

export const HOUR = 60 * 60_000;
