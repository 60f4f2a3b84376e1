import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { SeenJob } from '../support/jobs.ts';
import { Coordinators, type Replica } from './coordinators.ts';
import { WriteGate, type WriteSequence } from './kill-gate.ts';
import {
  type CleanRun,
  describeKill,
  eventually,
  type KillCase,
  KillScenario,
  type Rounds,
  testKillAtEachWrite,
  wasNeverRecorded,
} from './kill-rounds.ts';

/**
 * The manager of a delegated job's origin is killed at each write: to Kubernetes, to the store, to the target. Its
 * successor commits exactly one set of results.
 */
export function testOrigin(rounds: Rounds): void {
  const name = 'a manager is killed at each write of a job that it gives away: it has one set of results';
  testKillAtEachWrite(name, rounds, (t) => OriginKillScenario.start(t));
}

interface CleanOriginRun extends CleanRun {
  /** The objects of a service without jobs, and with one job that has ended. */
  readonly before: readonly string[];
  readonly after: readonly string[];
}

/** A coordinator with one manager at a time, behind a gate. */
class OriginKillScenario extends KillScenario<CleanOriginRun, Replica> {
  readonly #our: Coordinators;

  private constructor(our: Coordinators, gate: WriteGate, manager: Replica) {
    super(gate, manager);
    this.#our = our;
  }

  static async start(t: TestContext): Promise<OriginKillScenario> {
    const gate = new WriteGate();
    t.after(() => gate.stop());
    const our = await Coordinators.start({ gate, managers: 0 });
    t.after(() => our[Symbol.asyncDispose]());
    return new OriginKillScenario(our, gate, await our.replica());
  }

  async runClean(): Promise<CleanOriginRun> {
    const { inventory: traces } = this.#our;
    const name = 'job-00-clean';
    const sequence = await this.create(name);
    const before = await traces.forName(name);
    const id = await this.#our.submit(this.manager, name);
    await this.#our.expectOnce(this.manager, name, [id]);
    const after = await eventually(async () => {
      const its = await traces.forName(name);
      // The last write publishes the result of the job.
      assert.ok(its.some((each) => /^Job .* succeeded/.test(each)));
      return its;
    });
    return { steps: sequence.writes.length, before, after };
  }

  async create(name: string): Promise<WriteSequence> {
    const sequence = this.gate.track(name);
    await this.#our.create(this.manager, name);
    this.#our.release(name);
    await this.#our.inventory.waitUntilSwept(name);
    sequence.begin();
    return sequence;
  }

  async begin(name: string): Promise<void> {
    // A caller that is stopped at the first step gets no answer.
    this.#our.submit(this.manager, name).catch(() => undefined);
  }

  jobs(name: string): Promise<SeenJob[]> {
    return this.#our.jobs(this.manager, name);
  }

  protected async startSuccessor(): Promise<Replica> {
    const manager = await this.#our.replica();
    this.#our.setContact(manager);
    return manager;
  }

  async expectOnce(one: KillCase): Promise<void> {
    const jobs = await this.jobs(one.name);
    const ids = jobs.map(({ id }) => id);
    assert.equal(ids.length, wasNeverRecorded(one) ? 0 : 1);
    if (ids.length > 0) await this.#renewTokenIfNeeded(one);
    await this.#our.expectOnce(this.manager, one.name, ids);
    for (const id of ids) assert.ok(this.#our.countRuns(id) >= 1);
  }

  expectNothingElse(cases: readonly KillCase[], { before, after }: CleanOriginRun): Promise<void> {
    const clean = (one: KillCase) => (wasNeverRecorded(one) ? before : after);
    return this.#our.inventory.expectOnly(
      cases.map((one) => ({ name: one.name, at: describeKill(one), clean: clean(one) })),
    );
  }

  /**
   * If the manager is killed after the issuer replaced a refresh token and before the new one is stored, the grant is
   * lost. Only in this case may the job report this and wait for its owner.
   */
  async #renewTokenIfNeeded({ name, stopPoint, sequence }: KillCase): Promise<void> {
    const needsOwner = await eventually(async () => {
      const [job] = await this.jobs(name);
      assert.ok(job && (job.state === 'succeeded' || /update the service with a new one/.test(job.message)));
      return job.state !== 'succeeded';
    });
    if (!needsOwner) return;
    const written = sequence.writes.slice(0, stopPoint.side === 'before' ? -1 : undefined);
    // The first write about the grant announces its use, the second stores the new token.
    assert.equal(written.filter((each) => each.includes('/oscar-grant-')).length, 1);
    await this.#our.renewToken(this.manager, name);
  }
}
