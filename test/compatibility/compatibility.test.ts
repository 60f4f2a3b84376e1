import assert from 'node:assert/strict';
import { before, suite, test } from 'node:test';
import { type Audit, audit } from './audit.ts';
import { countsOf } from './counts.ts';
import { DIFFERENCES } from './differences.ts';
import { readExchanges } from './exchanges.ts';
import { replay } from './replay.ts';

suite('what was recorded from the Go manager, sent to ours', () => {
  const exchanges = readExchanges();
  let found: Audit;

  before(async () => {
    found = audit(await replay(exchanges), DIFFERENCES);
  });

  test('every answer is as recorded, or its difference is explained', () => assertNone(found.unexplained));
  test('no explanation is left over', () => assertNone(found.needless));
  test('no answer has two explanations', () => assertNone(found.ambiguous));
  test('our answers are what the explanations say', () => assertNone(found.wrong));
  test('every substitute that carries the state on is needed, and works', () => assertNone(found.broken));

  test('so many are identical', (t) => {
    const { identical, defect, decision, later } = countsOf(exchanges, DIFFERENCES);
    t.diagnostic(
      `${exchanges.length} exchanges: ${identical} identical; ` +
        `explained: ${defect} defects, ${decision} decisions, ${later} later`,
    );
  });
});

function assertNone(problems: readonly string[]): void {
  assert.ok(problems.length === 0, `${problems.length} of them:\n\n${problems.join('\n\n')}`);
}
