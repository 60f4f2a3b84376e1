/** A user who can log in at a test issuer. The password is the login. */
export interface TestUser {
  readonly login: string;
  readonly sub: string;
  /** The claims in userinfo in addition to `sub`. */
  readonly claims: Readonly<Record<string, unknown>>;
}

export const ALICE: TestUser = {
  login: 'alice',
  sub: '00000001-alice-4000-8000-000000000001',
  claims: { name: 'Alice', group_membership: ['/oscar', '/alices'] },
};

export const BOB: TestUser = {
  login: 'bob',
  sub: '00000002-bob-4000-8000-000000000002',
  claims: { name: 'Bob', group_membership: ['/oscar', '/bobs'] },
};

export const CAROL: TestUser = {
  login: 'carol',
  sub: '00000003-carol-4000-8000-000000000003',
  claims: { name: 'Carol', group_membership: ['/carols'] },
};
