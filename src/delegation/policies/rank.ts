import type { Demand } from '../../model/job/index.ts';
import { type PolicyName, policyNamed } from '../../model/service/index.ts';
import { orderByCompletionTime } from './fastest.ts';
import { explainNoRoom, isKnown, mayHaveRoom } from './free-capacity.ts';
import { orderByLoad } from './load-based.ts';
import type {
  Candidate,
  DelegationPolicy,
  Eligible,
  Excluded,
  KnownCandidate,
  Random,
  Ranking,
  Weights,
} from './policy.ts';
import { orderRandomly } from './random.ts';
import { orderByPriority } from './static.ts';
import { orderByTopsis } from './topsis.ts';

/** The policy of the definition: `federation.delegation` and `federation.weights`. */
export interface PolicyChoice {
  readonly policy?: string | undefined;
  readonly weights?: Weights | undefined;
}

const POLICIES: Readonly<Record<PolicyName, DelegationPolicy>> = {
  static: { goesBy: 'definition', order: orderByPriority },
  random: { goesBy: 'definition', order: orderRandomly },
  'load-based': { goesBy: 'status', order: (candidates, _weights, random) => orderByLoad(candidates, random) },
  topsis: { goesBy: 'status', order: (candidates, _weights, random) => orderByTopsis(candidates, random) },
  fastest: { goesBy: 'status', order: (candidates, _weights, random) => orderByCompletionTime(candidates, random) },
};

/**
 * Ranks all candidates: first those that can run the job, best first, then the others, each with its reason
 * (docs/delegation.md#whom). `static` and `random` need no snapshots; the other policies put candidates without a valid
 * snapshot last, by priority and by what was just sent to them.
 */
export function rank(
  choice: PolicyChoice,
  candidates: readonly Candidate[],
  demand: Demand,
  random: Random,
): readonly Ranking[] {
  const able: Candidate[] = [];
  const refused: Ranking[] = [];
  for (const candidate of candidates) {
    if (isNeverUsed(candidate.priority)) refused.push({ candidate, refusal: neverUsed(candidate) });
    else if (mayHaveRoom(demand, candidate)) able.push(candidate);
    else refused.push(new NoRoom(candidate, demand));
  }
  return [...ordered(choice, able, random), ...refused];
}

/** As in the schema of the definition. */
const NEVER = 101;

export const isNeverUsed = (priority: number): boolean => priority >= NEVER;

const neverUsed = ({ priority }: Candidate) =>
  `its priority is ${priority}: a member with ${NEVER} or more is never used`;

/** Of hundreds of members without room only a few are shown, so the reason is put into words when it is read. */
class NoRoom implements Excluded {
  readonly candidate: Candidate;
  readonly #demand: Demand;

  constructor(candidate: Candidate, demand: Demand) {
    this.candidate = candidate;
    this.#demand = demand;
  }

  get refusal(): string {
    return explainNoRoom(this.#demand, this.candidate) ?? 'it has no room';
  }
}

function ordered({ policy, weights = {} }: PolicyChoice, able: readonly Candidate[], random: Random): Eligible[] {
  const chosen = POLICIES[policyNamed(policy)];
  if (chosen.goesBy === 'definition') return chosen.order(able, weights, random);
  return knownFirst(able, (known) => chosen.order(known, weights, random));
}

/**
 * Before the first snapshots arrive, a burst spreads over members of equal priority by what was sent to them (F16).
 * What is sent to an `endpoint` is never counted, so endpoints come after the other members, as they do once snapshots
 * are known.
 */
function knownFirst(able: readonly Candidate[], order: (known: readonly KnownCandidate[]) => Eligible[]): Eligible[] {
  const leastSent = able
    .filter((candidate) => !isKnown(candidate))
    .toSorted((a, b) => Number(a.type === 'endpoint') - Number(b.type === 'endpoint') || sent(a) - sent(b));
  const unknown = orderByPriority(leastSent);
  return [...order(able.filter(isKnown)), ...unknown.map(({ candidate }) => ({ candidate }))];
}

const sent = ({ inFlight }: Candidate) => inFlight.cpu;
