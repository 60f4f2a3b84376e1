import assert from 'node:assert/strict';
import { jobKeyText } from '../../jobs/index.ts';
import { isFinal, type JobRecord } from '../../model/job/index.ts';

interface Life {
  last?: JobRecord;
  /** The clusters that had the job, by epoch. */
  readonly holders: Map<number, Set<string>>;
}

/** Checks every write of a job record against the rules that must always hold. */
export class History {
  readonly #lives = new Map<string, Life>();
  readonly problems: string[] = [];

  saw(record: JobRecord): void {
    const name = jobKeyText(record);
    const life: Life = this.#lives.get(name) ?? { holders: new Map() };
    this.#lives.set(name, life);
    try {
      if (life.last) follows(life.last, record);
      const { epoch, state, placement, attempts } = record;
      const holders = life.holders.get(epoch) ?? new Set();
      life.holders.set(epoch, holders);
      if (state === 'running' && attempts.at(-1)?.epoch === epoch) holders.add('here');
      if ((state === 'offering' || state === 'delegated') && placement) holders.add(placement.member);
      assert.ok(holders.size <= 1, `epoch ${epoch} was at ${[...holders].join(' and ')}`);
    } catch (error) {
      this.problems.push(`${name}: ${error instanceof Error ? error.message : String(error)}`);
    }
    life.last = record;
  }
}

function follows(before: JobRecord, after: JobRecord): void {
  assert.ok(!isFinal(before.state), `it was ${before.state} and changed to ${after.state}`);
  assert.ok(after.epoch === before.epoch || after.epoch === before.epoch + 1, 'an epoch is raised by one');
  if (after.epoch > before.epoch) {
    assert.ok(after.state === 'offering' || after.state === 'running', `a new epoch begins ${after.state}`);
  }
  if (after.state === 'delegated') assert.equal(after.placement?.epoch, after.epoch);
  if (before.state === 'committing') {
    assert.equal(after.epoch, before.epoch, 'the epoch does not change during a commit');
    assert.equal(after.placement?.manifest, before.placement?.manifest, 'the manifest does not change during a commit');
  }
}
