import type { OriginServer, ProvenWorker } from '../server.ts';
import type { AttemptKey, EnteredJob, Permit, Report } from '../terms.ts';
import { givePermit } from './attempt/permit.ts';
import { takeReport } from './attempt/report.ts';
import { placementOf } from './moves.ts';
import { openJob } from './open.ts';
import { askerOf, type OriginDeps } from './origin.ts';

type DeskDeps = Pick<
  OriginDeps,
  'store' | 'line' | 'objects' | 'here' | 'maxEventBytes' | 'lease' | 'clock' | 'meters'
>;

/**
 * Where members speak to a manager that does not lead. It writes down what they say, as the leader would; whatever has to
 * be done about it, the leader does when it hears of the record.
 */
export class OriginDesk implements OriginServer {
  readonly #deps: DeskDeps;

  constructor(deps: DeskDeps) {
    this.#deps = deps;
  }

  permit(attempt: AttemptKey, from: ProvenWorker): Promise<Permit> {
    return givePermit(attempt, askerOf(from), { ...this.#deps, noted: nothing });
  }

  report(attempt: AttemptKey, report: Report, from: ProvenWorker): Promise<void> {
    const toDo = { noted: nothing, back: nothing, commit: nothing, ended: nothing };
    return takeReport(attempt, askerOf(from), report, { ...this.#deps, ...toDo });
  }

  open(job: EnteredJob, from: ProvenWorker): Promise<void> {
    return openJob(job, from, this.#deps);
  }

  /** How many attempts of this service a member still has. */
  async outstanding(serviceUid: string, member: string): Promise<number> {
    let held = 0;
    for await (const record of this.#deps.store.unfinished()) {
      const isHeld = record.state === 'offering' || record.state === 'delegated';
      if (isHeld && record.serviceUid === serviceUid && placementOf(record)?.member === member) held++;
    }
    return held;
  }
}

const nothing = () => undefined;
