import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { type GroupsSource, readGroups } from './groups.ts';

const EGI = 'https://aai.egi.eu/auth/realms/egi/protocol/openid-connect/auth';
const AI4EOSC = 'https://login.cloud.ai4eosc.eu/realms/ai4eosc/protocol/openid-connect/auth';
const OTHER = 'https://keycloak.example.org/realms/grycap/protocol/openid-connect/auth';

const cases: (GroupsSource & { name: string; groups: string[] | undefined })[] = [
  {
    name: 'EGI names a group in the fifth field of a urn, in any letter case, once per role',
    authorizationEndpoint: EGI,
    claims: {
      entitlements: [
        'urn:mace:egi.eu:group:vo.Example.eu:role=member#aai.egi.eu',
        'urn:mace:egi.eu:group:vo.example.eu:role=vm_operator#aai.egi.eu',
        'URN:MACE:EGI.EU:GROUP:Other.eu:role=member#aai.egi.eu',
      ],
    },
    groups: ['vo.example.eu', 'other.eu'],
  },
  {
    name: 'other entitlements of EGI are no groups',
    authorizationEndpoint: EGI,
    claims: {
      entitlements: ['urn:mace:egi.eu:res:rcauth', 'urn:mace:egi.eu:groups:x', 'urn:mace:egi.eu:group::role', 'x', 7],
    },
    groups: [],
  },
  {
    name: 'AI4EOSC names groups as roles of the realm',
    authorizationEndpoint: AI4EOSC,
    claims: { realm_access: { roles: ['access:vo.ai4eosc.eu'] }, group_membership: ['/not-this'] },
    groups: ['access:vo.ai4eosc.eu'],
  },
  {
    name: 'any other issuer has group_membership',
    authorizationEndpoint: OTHER,
    claims: { group_membership: ['/oscar-staff', '/oscar'], entitlements: ['urn:mace:egi.eu:group:vo.example.eu:x'] },
    groups: ['/oscar-staff', '/oscar'],
  },
  {
    name: 'an empty list says that there are no groups',
    authorizationEndpoint: OTHER,
    claims: { group_membership: [] },
    groups: [],
  },
  { name: 'no claim says nothing about groups', authorizationEndpoint: OTHER, claims: { sub: 'x' }, groups: undefined },
  {
    name: 'no claim says nothing about groups for EGI either',
    authorizationEndpoint: EGI,
    claims: { sub: 'x' },
    groups: undefined,
  },
  {
    name: 'a claim that the operator names is used for any issuer, as it is',
    authorizationEndpoint: EGI,
    groupsClaim: 'groups',
    claims: { groups: ['Staff'], entitlements: ['urn:mace:egi.eu:group:vo.example.eu:x'] },
    groups: ['Staff'],
  },
  {
    name: "the operator's claim may be a path",
    authorizationEndpoint: OTHER,
    groupsClaim: 'resource_access.oscar.roles',
    claims: { resource_access: { oscar: { roles: ['user'] } } },
    groups: ['user'],
  },
  {
    name: "the operator's claim may be a name with dots",
    authorizationEndpoint: OTHER,
    groupsClaim: 'https://example.org/groups',
    claims: { 'https://example.org/groups': ['a'] },
    groups: ['a'],
  },
  {
    name: 'a path does not lead out of the claims',
    authorizationEndpoint: OTHER,
    groupsClaim: 'constructor.name',
    claims: {},
    groups: undefined,
  },
  {
    name: 'values that are not strings are ignored',
    authorizationEndpoint: OTHER,
    claims: { group_membership: ['/a', 1, null, ['/b'], { c: 1 }, '', '/d'] },
    groups: ['/a', '/d'],
  },
  {
    name: 'a string instead of a list is ignored',
    authorizationEndpoint: OTHER,
    claims: { group_membership: '/oscar' },
    groups: undefined,
  },
];

for (const { name, groups, ...source } of cases) {
  test(`groups: ${name}`, () => assert.deepEqual(readGroups(source), groups));
}

test('groups: any claims are read without an error', () => {
  const claims = fc.record(
    { entitlements: fc.anything(), realm_access: fc.anything(), group_membership: fc.anything() },
    { requiredKeys: [] },
  );
  const endpoint = fc.constantFrom(EGI, AI4EOSC, OTHER, '');
  const path = fc.option(fc.constantFrom('realm_access.roles', 'group_membership.length', '.', 'a..b'), {
    nil: undefined,
  });
  fc.assert(
    fc.property(claims, endpoint, path, (odd, authorizationEndpoint, groupsClaim) => {
      const groups = readGroups({ claims: odd, authorizationEndpoint, groupsClaim });
      assert.ok(groups === undefined || groups.every((group) => typeof group === 'string' && group !== ''));
    }),
  );
});
