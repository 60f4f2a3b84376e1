import type { Demand } from '../../model/job/index.ts';
import { type PolicyName, policyNamed } from '../../model/service/index.ts';
import { explainNoRoom, isKnown } from './free-capacity.ts';
import { orderByLoad } from './load-based.ts';
import type { Candidate, DelegationPolicy, Eligible, KnownCandidate, Random, Ranking, Weights } from './policy.ts';
import { orderRandomly } from './random.ts';
import { orderByPriority } from './static.ts';
import { orderByTopsis } from './topsis.ts';

/** How the definition wants it: `federation.delegation` and `federation.weights`. */
export interface PolicyChoice {
  readonly policy?: string | undefined;
  readonly weights?: Weights | undefined;
}

const POLICIES: Readonly<Record<PolicyName, DelegationPolicy>> = {
  static: { goesBy: 'definition', order: orderByPriority },
  random: { goesBy: 'definition', order: orderRandomly },
  'load-based': { goesBy: 'status', order: (candidates, _weights, chance) => orderByLoad(candidates, chance) },
  topsis: { goesBy: 'status', order: (candidates, _weights, chance) => orderByTopsis(candidates, chance) },
};

/**
 * All candidates: first those that can take the job, best first, then those that cannot, each with its reason
 * (docs/delegation.md#whom). `static` and `random` need no status; the others put whom they know nothing of behind
 * those they know, by priority and by what they were just sent.
 */
export function rank(
  choice: PolicyChoice,
  candidates: readonly Candidate[],
  demand: Demand,
  chance: Random,
): readonly Ranking[] {
  const able: Candidate[] = [];
  const refused: Ranking[] = [];
  for (const candidate of candidates) {
    const refusal = neverUsed(candidate) ?? explainNoRoom(demand, candidate);
    if (refusal === undefined) able.push(candidate);
    else refused.push({ candidate, refusal });
  }
  return [...ordered(choice, able, chance), ...refused];
}

/** As the schema of the definition says. */
const NEVER = 101;

function neverUsed({ priority }: Candidate): string | undefined {
  return priority < NEVER ? undefined : `its priority is ${priority}: a member with ${NEVER} or more is never used`;
}

function ordered({ policy, weights = {} }: PolicyChoice, able: readonly Candidate[], chance: Random): Eligible[] {
  const chosen = POLICIES[policyNamed(policy)];
  if (chosen.goesBy === 'definition') return chosen.order(able, weights, chance);
  return knownFirst(able, (known) => chosen.order(known, weights, chance));
}

/**
 * Before the first status has come, a burst spreads over members of one priority by what they were sent (F16). Of an
 * `endpoint` that is never counted: it comes after those of whom it is, as it does when they are known.
 */
function knownFirst(able: readonly Candidate[], order: (known: readonly KnownCandidate[]) => Eligible[]): Eligible[] {
  const leastSent = able
    .filter((candidate) => !isKnown(candidate))
    .toSorted((a, b) => Number(a.type === 'endpoint') - Number(b.type === 'endpoint') || sent(a) - sent(b));
  const unknown = orderByPriority(leastSent);
  return [...order(able.filter(isKnown)), ...unknown.map(({ candidate }) => ({ candidate }))];
}

const sent = ({ inFlight }: Candidate) => inFlight.cpu;
