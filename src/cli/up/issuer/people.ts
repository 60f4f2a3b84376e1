/** A demo user of `oscar up`. */
export interface Person {
  /** Also the password. */
  readonly login: string;
  readonly sub: string;
  readonly name: string;
}

export const PEOPLE: readonly Person[] = [
  { login: 'alice', sub: 'a11ce000-0000-4000-8000-000000000001', name: 'Alice' },
  { login: 'bob', sub: 'b0b00000-0000-4000-8000-000000000002', name: 'Bob' },
];

/** The group that the clusters require. All demo users are in it. */
export const GROUP = '/oscar';

export const claimsFor = ({ sub, name }: Person) => ({ sub, name, group_membership: [GROUP] });

export const findPerson = (sub: unknown) => PEOPLE.find((each) => each.sub === sub);
