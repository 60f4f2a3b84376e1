import { CLUSTER_ADMIN } from '../model/service/index.ts';
import { aliasedUid, splitUid } from '../model/user-uid.ts';
import { IdentityError } from './errors.ts';

/** The issuers of a cluster, and which of their users are the same. */
export interface IssuerSettings {
  /** By the exact name in the `iss` of tokens. Users of the first have their `sub` as uid. */
  readonly issuers: readonly string[];
  /** Aliases of the others, by issuer. An issuer without one must be in `equal`. */
  readonly aliases?: ReadonlyMap<string, string> | undefined;
  /** Issuers whose users are those of the first: the same `sub` is the same person (`OIDC_EQUAL_ISSUERS`). */
  readonly equal?: readonly string[] | undefined;
}

/** The issuers of a cluster by their aliases, as managers send them to each other. The alias of the first is empty. */
export type IssuerAliases = Readonly<Record<string, string>>;

/** Longest `sub` that an issuer may use (OpenID Connect Core §2), and longest uid. */
const UID_LENGTH = 255;

/** Characters that are invisible or change how their neighbours are displayed. */
export const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u;

/**
 * Names the users of several issuers (decision 0057). A user is an issuer and a `sub`: the same `sub` at two issuers is two
 * users, unless the operator has declared the issuers equal.
 */
export class UserNames {
  /** The alias of each issuer; empty for the first and its equals. */
  readonly #aliases: ReadonlyMap<string, string>;
  /** One issuer for each alias. */
  readonly aliases: IssuerAliases;

  constructor({ issuers, aliases, equal = [] }: IssuerSettings) {
    const [first] = issuers;
    const aliasOf = (issuer: string) => {
      if (issuer === first || equal.includes(issuer)) return '';
      const alias = aliases?.get(issuer);
      if (alias !== undefined) return alias;
      throw new Error(`the issuer ${issuer} has no alias, and is not declared equal to the first issuer`);
    };
    this.#aliases = new Map(issuers.map((issuer) => [issuer, aliasOf(issuer)]));
    this.aliases = Object.fromEntries([...this.#aliases].toReversed().map(([issuer, alias]) => [alias, issuer]));
  }

  /**
   * The uid of a user. It is used in labels, names and logs, and decides ownership. So it must be printable, and nobody may
   * get the name of the owner of the administrator's services, or the uid of a user of another issuer.
   *
   * @throws {IdentityError} `bad-token`
   */
  uidFor(issuer: string, subject: unknown): string {
    const alias = this.#aliases.get(issuer);
    if (alias === undefined) {
      throw new IdentityError(
        'bad-token',
        'the issuer of the access token is not accepted here: use a token of another issuer',
      );
    }
    if (typeof subject !== 'string' || subject.trim() === '' || INVISIBLE.test(subject)) throw invalidSubject();
    const uid = alias === '' ? subject : aliasedUid(alias, subject);
    if (uid.length > UID_LENGTH) throw invalidSubject();
    const isReserved = uid === CLUSTER_ADMIN || (alias === '' && this.#isOfAnother(uid));
    if (!isReserved) return uid;
    throw new IdentityError(
      'bad-token',
      `"${subject}" is reserved and cannot be the "sub" of a user: ask the issuer for another one`,
    );
  }

  /** Whether a bare `sub` would be the uid of a user of an issuer with an alias. */
  #isOfAnother(uid: string): boolean {
    const split = splitUid(uid);
    return split !== undefined && Object.hasOwn(this.aliases, split.alias);
  }

  /** The uid on this cluster of a user at an issuer; undefined if there can be no such user here. */
  find(issuer: string | undefined, subject: string): string | undefined {
    if (issuer === undefined || !this.#aliases.has(issuer)) return undefined;
    try {
      return this.uidFor(issuer, subject);
    } catch (error) {
      if (error instanceof IdentityError) return undefined;
      throw error;
    }
  }

  /** The uid on this cluster of a user of another one, whose issuers have other aliases there; undefined if none. */
  translate(uid: string, theirs: IssuerAliases): string | undefined {
    const split = splitUid(uid);
    const isAliased = split !== undefined && Object.hasOwn(theirs, split.alias);
    return isAliased ? this.find(theirs[split.alias], split.subject) : this.find(theirs[''], uid);
  }
}

const invalidSubject = () =>
  new IdentityError('bad-token', 'the access token has no valid "sub": it must be a printable text');
