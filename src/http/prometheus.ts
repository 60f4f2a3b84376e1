import type { FastifyInstance } from 'fastify';
import { JOB_STATES, type JobStore } from '../cluster/index.ts';
import { isFinal, phaseOf } from '../jobs/index.ts';
import { Counter, Gauge, Histogram, METRICS_TYPE, processMeters } from './meters.ts';

/** Seconds. Scripts run for a moment or for a day. */
const JOB_BUCKETS = [0.1, 0.5, 1, 5, 15, 60, 300, 900, 3_600, 14_400, 86_400];

/** Seconds. An event that comes at once, one that the store had to send again, one that a sweep found. */
const LAG_BUCKETS = [0.01, 0.05, 0.25, 1, 5, 30, 120, 600, 3_600];

/** Seconds. The last ones are of callers who wait for a script. */
const REQUEST_BUCKETS = [0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10, 60, 300];

/** Seconds. Three round trips, near or far; the last ones are of members that do not answer, and of large results. */
const OFFER_BUCKETS = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 5, 10, 60];

/** Seconds. A decision is made of what is at hand. */
const DECISION_BUCKETS = [0.0001, 0.001, 0.005, 0.025, 0.1];

/**
 * What Prometheus is told of one manager. Labels are of closed sets, never a service or a user: there is no limit to how
 * many of those there are, and each would be a series for ever.
 */
export class Meters {
  readonly requests = new Histogram({
    name: 'oscar_http_request_duration_seconds',
    help: 'Time to answer a request, by the pattern of its route',
    buckets: REQUEST_BUCKETS,
  });
  readonly accepted = new Counter({
    name: 'oscar_jobs_accepted_total',
    help: 'Jobs accepted since the manager started',
  });
  readonly finished = new Counter({
    name: 'oscar_jobs_finished_total',
    help: 'Jobs that came into a final state since the manager started',
  });
  readonly durations = new Histogram({
    name: 'oscar_job_duration_seconds',
    help: 'Time that the script of a finished job ran',
    buckets: JOB_BUCKETS,
  });
  readonly eventLag = new Histogram({
    name: 'oscar_storage_event_lag_seconds',
    help: 'Time from the change of an object to the acceptance of its job',
    buckets: LAG_BUCKETS,
  });
  readonly offers = new Histogram({
    name: 'oscar_offers_seconds',
    help: 'Time until another cluster answered whether it takes a job, by what it answered',
    buckets: OFFER_BUCKETS,
  });
  readonly decisions = new Histogram({
    name: 'oscar_delegation_decision_seconds',
    help: 'Time to decide which clusters are asked to take a job',
    buckets: DECISION_BUCKETS,
  });
  readonly commits = new Histogram({
    name: 'oscar_commits_seconds',
    help: 'Time to bring the results of another cluster to their places, by how that ended',
    buckets: OFFER_BUCKETS,
  });
  readonly leasesExpired = new Counter({
    name: 'oscar_leases_expired_total',
    help: 'Jobs that were taken back from clusters which were silent for too long',
  });
  readonly fenced = new Counter({
    name: 'oscar_fenced_total',
    help: 'Words of other clusters about attempts that are not the current ones',
  });
  readonly #jobs = new Gauge({
    name: 'oscar_jobs',
    help: 'Jobs that are remembered, by state',
  });
  readonly #waiting = new Gauge({
    name: 'oscar_jobs_waiting',
    help: 'Jobs that wait to run',
  });
  readonly #oldest = new Gauge({
    name: 'oscar_jobs_oldest_waiting_seconds',
    help: 'How long the oldest job that waits to run has been waiting, 0 without one',
  });

  constructor() {
    for (const trigger of ['storage', 'job', 'run']) this.accepted.add({ trigger }, 0);
    for (const outcome of JOB_STATES) if (isFinal(outcome)) this.finished.add({ outcome }, 0);
    this.leasesExpired.add({}, 0);
    this.fenced.add({}, 0);
  }

  /** Everything as text. Jobs are counted now: nobody pays for it between two scrapes. */
  async scrape(jobs: Pick<JobStore, 'counts' | 'oldestWaiting'>, now: number): Promise<{ type: string; text: string }> {
    const [counts, oldest] = await Promise.all([jobs.counts(), jobs.oldestWaiting()]);
    let waiting = 0;
    for (const state of JOB_STATES) {
      const count = counts.get(state) ?? 0;
      this.#jobs.set(count, { state });
      if (phaseOf(state) === 'Pending') waiting += count;
    }
    this.#waiting.set(waiting);
    this.#oldest.set(oldest === undefined ? 0 : Math.max(0, now - oldest) / 1000);
    const { requests, accepted, finished, durations, eventLag } = this;
    const { offers, decisions, commits, leasesExpired, fenced } = this;
    const ofJobs = [accepted, finished, durations, eventLag, this.#jobs, this.#waiting, this.#oldest];
    const meters = [requests, ...ofJobs, offers, decisions, commits, leasesExpired, fenced];
    return { type: METRICS_TYPE, text: `${[...meters.map((meter) => meter.text()), processMeters()].join('\n')}\n` };
  }
}

/** Times every request. Register it before the routes. */
export function meterRequests(app: FastifyInstance, { requests }: Meters): void {
  app.addHook('onResponse', (request, reply, done) => {
    const labels = {
      method: request.method,
      // What has no route has one label: paths are endless.
      route: request.is404 ? 'none' : (request.routeOptions.url ?? 'none'),
      status: reply.statusCode,
    };
    requests.observe(reply.elapsedTime / 1000, labels);
    done();
  });
}
