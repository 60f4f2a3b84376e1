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

  test('exchanges: every answer equals the recorded one or has an explained difference', () =>
    assertNone(found.unexplained));
  test('exchanges: every explanation is needed', () => assertNone(found.needless));
  test('exchanges: no answer has two explanations', () => assertNone(found.ambiguous));
  test('exchanges: our answers are those that the explanations state', () => assertNone(found.wrong));
  test('exchanges: every substitute request is needed and succeeds', () => assertNone(found.broken));

  test('exchanges: the number of identical answers', (t) => {
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
