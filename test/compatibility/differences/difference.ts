import type { Exchange } from '../exchanges.ts';
import type { Answer } from './answers.ts';

/**
 * `defect`: the Go manager is wrong, and what a client may expect is plain. `decision`: both could be right; ours was
 * chosen. `later`: our manager does not do this yet.
 */
export type Kind = 'defect' | 'decision' | 'later';

/** Why some answers of our manager are not the recorded ones. `docs/compatibility.md` is made from these. */
export interface Difference {
  readonly id: string;
  readonly kind: Kind;
  readonly title: string;
  /** For users: one or two sentences. */
  readonly reason: string;
  /** Which exchanges, and what we answer to them. */
  readonly cases: readonly Case[];
}

interface Case {
  readonly matches: readonly number[] | ((exchange: Exchange) => boolean);
  readonly ours: Answer;
}

/** A difference, one exchange that it explains, and our answer to that. */
export interface Explanation {
  readonly difference: Difference;
  readonly exchange: Exchange;
  readonly ours: Answer;
}

export function explanationsOf(differences: readonly Difference[], exchanges: readonly Exchange[]): Explanation[] {
  return differences.flatMap((difference) =>
    difference.cases.flatMap(({ matches, ours }) =>
      exchanges.filter(matcher(matches)).map((exchange) => ({ difference, exchange, ours })),
    ),
  );
}

/** Cases for exchanges that do not exist. */
export function strayNumbers(differences: readonly Difference[], exchanges: readonly Exchange[]): string[] {
  return differences.flatMap(({ id, cases }) =>
    cases.flatMap(({ matches }) => {
      if (typeof matches === 'function') return exchanges.some(matches) ? [] : [`${id}: a case matches nothing`];
      const strays = matches.filter((n) => !exchanges.some((exchange) => exchange.n === n));
      return strays.map((n) => `${id}: there is no exchange #${n}`);
    }),
  );
}

function matcher(matches: Case['matches']): (exchange: Exchange) => boolean {
  return typeof matches === 'function' ? matches : ({ n }) => matches.includes(n);
}

/**
 * Exchanges with a route that only the Go manager has, by a pattern for `<method> <path>`. Where that one has no route
 * either, both say so in the same words.
 */
export function onRoute(pattern: RegExp): (exchange: Exchange) => boolean {
  return ({ request, response }) =>
    pattern.test(`${request.method} ${request.path.split('?')[0]}`) &&
    response.headers['Content-Type'] !== 'text/plain';
}
