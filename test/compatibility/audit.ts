import { differencesBetween } from './compare.ts';
import { mistakesIn } from './differences/answers.ts';
import { type Difference, explanationsOf, strayNumbers } from './differences/difference.ts';
import { nameOf } from './exchanges.ts';
import type { Replayed } from './replay.ts';

/** Problems of our answers, or of the table that explains them, one text each. */
export interface Audit {
  /** Answers that differ from the recording without an explanation. */
  readonly unexplained: readonly string[];
  /** Explanations for answers that do not differ, or for exchanges that do not exist. */
  readonly needless: readonly string[];
  /** Exchanges with more than one explanation. */
  readonly ambiguous: readonly string[];
  /** Answers that differ from their explanation. */
  readonly wrong: readonly string[];
  /** Substitutes that were not needed or did not succeed. */
  readonly broken: readonly string[];
}

export function audit(replayed: readonly Replayed[], differences: readonly Difference[]): Audit {
  const exchanges = replayed.map(({ exchange }) => exchange);
  const explanations = Map.groupBy(explanationsOf(differences, exchanges), ({ exchange }) => exchange);
  const judged = replayed.map((each) => ({
    ...each,
    name: nameOf(each.exchange),
    found: differencesBetween(each.exchange.response, each.ours),
    reasons: explanations.get(each.exchange) ?? [],
  }));
  const same = judged.filter(({ found }) => found.length === 0);
  const other = judged.filter(({ found }) => found.length > 0);

  return {
    unexplained: other
      .filter(({ reasons }) => reasons.length === 0)
      .map(({ name, found }) => [name, ...found].join('\n')),
    needless: [
      ...same.flatMap(({ name, reasons }) =>
        reasons.map(({ difference }) => `${difference.id}: ${name} is as recorded`),
      ),
      ...strayNumbers(differences, exchanges),
    ],
    ambiguous: judged
      .filter(({ reasons }) => reasons.length > 1)
      .map(({ name, reasons }) => `${name}: ${reasons.map(({ difference }) => difference.id).join(', ')}`),
    wrong: other.flatMap(({ name, exchange, ours, reasons }) =>
      reasons.flatMap(({ difference, ours: answer }) =>
        mistakesIn(ours, answer(exchange.response)).map((mistake) => `${difference.id}: ${name}: ${mistake}`),
      ),
    ),
    broken: [
      ...same.filter(({ carriedOn }) => carriedOn).map(({ name }) => `${name} is as recorded and needs no substitute`),
      ...other.flatMap(({ name, carriedOn }) =>
        carriedOn && carriedOn.status >= 300
          ? [`the substitute for ${name} is answered ${carriedOn.status} ${carriedOn.text}`]
          : [],
      ),
    ],
  };
}
