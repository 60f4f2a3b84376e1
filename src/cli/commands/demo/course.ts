import { placeOf, type ToldJob } from '../jobs/told-job.ts';
import { FINAL } from '../jobs/view.ts';
import { exactly } from '../units.ts';

/** Follows the jobs of a demonstration, and tells what is new in them. */
export class Course {
  readonly #began: number;
  readonly #count: number;
  readonly #jobs = new Map<string, ToldJob>();
  /** What was said of each last. */
  readonly #said = new Map<string, string>();

  constructor(count: number, began: number) {
    this.#count = count;
    this.#began = began;
  }

  /** A line for each picture that has begun or ended somewhere since the last time. */
  see(jobs: readonly ToldJob[], now: number): string[] {
    const lines: string[] = [];
    for (const job of jobs) {
      this.#jobs.set(job.id, job);
      const news = newsOf(job);
      if (news === undefined || this.#said.get(job.id) === news) continue;
      this.#said.set(job.id, news);
      lines.push(`${exactly(now - this.#began).padStart(6)}  ${nameOf(job)} ${news}`);
    }
    return lines;
  }

  get isOver(): boolean {
    return this.#jobs.size >= this.#count && this.jobs.every(({ state }) => FINAL.has(state));
  }

  get jobs(): readonly ToldJob[] {
    return [...this.#jobs.values()];
  }

  /** Who runs what now, in one line. */
  get line(): string {
    const running = this.jobs.filter((job) => !FINAL.has(job.state) && placeOf(job) !== undefined);
    const places = Map.groupBy(running, (job) => placeOf(job) ?? '');
    const here = [...places].map(([place, jobs]) => `${place}: ${jobs.map(nameOf).join(' ')}`);
    const done = this.jobs.filter(({ state }) => FINAL.has(state)).length;
    return [...here.toSorted(), `${done} of ${this.#count} done`].join(' | ');
  }
}

function newsOf(job: ToldJob): string | undefined {
  const place = placeOf(job);
  if (job.state === 'succeeded') return `is grey, from ${place}`;
  if (FINAL.has(job.state)) return `${job.state} at ${place}: ${job.message}`;
  const { policy, chosen } = job.decisions.at(-1) ?? {};
  if (place !== undefined) return chosen === undefined ? `runs at ${place}` : `runs at ${place}: "${policy}" chose it`;
  return policy !== undefined && chosen === undefined ? 'waits: all of them are full' : undefined;
}

/** `07` of `in/picture-x1-07.ppm`. */
const nameOf = ({ object }: ToldJob) => /(\d+)\.ppm$/.exec(object?.key ?? '')?.[1] ?? '?';
