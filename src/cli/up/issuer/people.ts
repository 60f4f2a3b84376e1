/** Somebody who can log in at the issuer of `oscar up`. */
export interface Person {
  /** Also the password: they are there to be tried. */
  readonly login: string;
  readonly sub: string;
  readonly name: string;
}

export const PEOPLE: readonly Person[] = [
  { login: 'alice', sub: 'a11ce000-0000-4000-8000-000000000001', name: 'Alice' },
  { login: 'bob', sub: 'b0b00000-0000-4000-8000-000000000002', name: 'Bob' },
];

/** All of them are in it, and clusters let nobody else in. */
export const GROUP = '/oscar';

export const claimsOf = ({ sub, name }: Person) => ({ sub, name, group_membership: [GROUP] });

export const personWith = (sub: unknown) => PEOPLE.find((each) => each.sub === sub);
