/**
 * The closed sets of the federation block, each defined once: the schema, the reader, the policies, the command line and the
 * tests import them.
 */

export const TOPOLOGIES = ['none', 'star', 'tree', 'mesh'] as const;

export const DEPLOYMENTS = ['transactional', 'best-effort'] as const;

export const DELEGATE_WHEN = ['saturated', 'always'] as const;

/** What a delegated job may do with objects that exist: replace them, or replace only results of the same input. */
export const OUTPUT_RULES = ['replace', 'protect'] as const;

/** Delegation policies, each with the name of its score; without a name the score only orders the members. */
const POLICIES = {
  static: { score: 'priority' },
  random: {},
  'load-based': { score: 'load' },
  topsis: { score: 'distance from the best' },
  fastest: { score: 'seconds until it ends' },
} as const satisfies Record<string, { readonly score?: string }>;

export type PolicyName = keyof typeof POLICIES;

export const POLICY_NAMES = Object.keys(POLICIES) as readonly PolicyName[];

/** The policy of that name. Definitions are checked when they are read: any other name is `static`, the default. */
export function policyNamed(name: string | undefined): PolicyName {
  return POLICY_NAMES.find((policy) => policy === name) ?? 'static';
}

/** What a score of that policy measures, for display. */
export function scoreWord(policy: string): string | undefined {
  const name = POLICY_NAMES.find((each) => each === policy);
  const known: { readonly score?: string } = name ? POLICIES[name] : {};
  return known.score;
}
