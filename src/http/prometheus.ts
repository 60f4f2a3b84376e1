import type { FastifyInstance } from 'fastify';
import type { DelegationMeters } from '../delegation/index.ts';
import type { JobObserver } from '../jobs/index.ts';
import { isFinal, JOB_STATES, type JobRecord, toPhase } from '../model/job/index.ts';
import type { JobStore } from '../ports/index.ts';

/** Seconds. Scripts run from less than a second to a day. */
const JOB_BUCKETS = [0.1, 0.5, 1, 5, 15, 60, 300, 900, 3_600, 14_400, 86_400];

/** Seconds. From events that arrive at once, over those that the store had to resend, to those that a sweep found. */
const LAG_BUCKETS = [0.01, 0.05, 0.25, 1, 5, 30, 120, 600, 3_600];

/** Seconds. The last ones are for synchronous invocations. */
const REQUEST_BUCKETS = [0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10, 60, 300];

/** Seconds. Three round trips; the last ones are for members that do not answer, and for large results. */
const OFFER_BUCKETS = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 5, 10, 60];

/** Seconds. A decision uses data in memory. */
const DECISION_BUCKETS = [0.0001, 0.001, 0.005, 0.025, 0.1];

/**
 * The Prometheus metrics of one manager. Labels have closed sets of values, never a service or a user, because each value
 * would be a series for ever and their number is unlimited.
 */
export class Meters {
  readonly requests = new Histogram({
    name: 'oscar_http_request_duration_seconds',
    help: 'Time to answer a request, by route pattern',
    buckets: REQUEST_BUCKETS,
  });
  readonly accepted = new Counter({
    name: 'oscar_jobs_accepted_total',
    help: 'Jobs accepted since the manager started',
  });
  readonly finished = new Counter({
    name: 'oscar_jobs_finished_total',
    help: 'Jobs that reached a final state since the manager started',
  });
  readonly durations = new Histogram({
    name: 'oscar_job_duration_seconds',
    help: 'Run time of the script of a finished job',
    buckets: JOB_BUCKETS,
  });
  readonly eventLag = new Histogram({
    name: 'oscar_storage_event_lag_seconds',
    help: 'Time from the change of an object to the acceptance of its job',
    buckets: LAG_BUCKETS,
  });
  readonly offers = new Histogram({
    name: 'oscar_offers_seconds',
    help: 'Time until another cluster answered an offer, by outcome',
    buckets: OFFER_BUCKETS,
  });
  readonly decisions = new Histogram({
    name: 'oscar_delegation_decision_seconds',
    help: 'Time to decide to which clusters a job is offered',
    buckets: DECISION_BUCKETS,
  });
  readonly commits = new Histogram({
    name: 'oscar_commits_seconds',
    help: 'Time to commit the results of another cluster, by outcome',
    buckets: OFFER_BUCKETS,
  });
  readonly leasesExpired = new Counter({
    name: 'oscar_leases_expired_total',
    help: 'Jobs taken back from clusters whose lease expired',
  });
  readonly fenced = new Counter({
    name: 'oscar_fenced_total',
    help: 'Reports rejected because their attempt was superseded',
  });
  readonly #jobs = new Gauge({
    name: 'oscar_jobs',
    help: 'Stored job records, by state',
  });
  readonly #waiting = new Gauge({
    name: 'oscar_jobs_waiting',
    help: 'Jobs waiting to run',
  });
  readonly #oldest = new Gauge({
    name: 'oscar_jobs_oldest_waiting_seconds',
    help: 'Waiting time of the oldest waiting job, 0 if no job waits',
  });

  constructor() {
    for (const trigger of ['storage', 'job', 'run']) this.accepted.add({ trigger }, 0);
    for (const outcome of JOB_STATES) if (isFinal(outcome)) this.finished.add({ outcome }, 0);
    this.leasesExpired.add({}, 0);
    this.fenced.add({}, 0);
  }

  /** All metrics as text. Jobs are counted at each scrape, so that there is no cost between scrapes. */
  async scrape(jobs: Pick<JobStore, 'counts' | 'oldestWaiting'>, now: number): Promise<{ type: string; text: string }> {
    const [counts, oldest] = await Promise.all([jobs.counts(), jobs.oldestWaiting()]);
    let waiting = 0;
    for (const state of JOB_STATES) {
      const count = counts.get(state) ?? 0;
      this.#jobs.set(count, { state });
      if (toPhase(state) === 'Pending') waiting += count;
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
      // All unknown paths share one label, because their number is unlimited.
      route: request.is404 ? 'none' : (request.routeOptions.url ?? 'none'),
      status: reply.statusCode,
    };
    requests.observe(reply.elapsedTime / 1000, labels);
    done();
  });
}

/** Counts accepted and finished jobs. */
export function jobMeters(meters: Meters): JobObserver {
  return {
    accepted: (record) => countAccepted(record, meters),
    finished: (record) => countFinished(record, meters),
  };
}

function countAccepted({ trigger, object, acceptedAt }: JobRecord, meters: Meters): void {
  meters.accepted.add({ trigger });
  // The clock of the store may be ahead of ours.
  if (object?.modifiedAt !== undefined) meters.eventLag.observe(Math.max(0, acceptedAt - object.modifiedAt) / 1000);
}

function countFinished({ state, startedAt, finishedAt }: JobRecord, meters: Meters): void {
  meters.finished.add({ outcome: state });
  if (startedAt === undefined || finishedAt === undefined) return;
  meters.durations.observe(Math.max(0, finishedAt - startedAt) / 1000, { outcome: state });
}

/** Measures offers to other clusters and their outcomes. */
export function delegationMeters({ offers, decisions, commits, leasesExpired, fenced }: Meters): DelegationMeters {
  return {
    offered: (outcome, seconds) => offers.observe(seconds, { outcome }),
    decided: (seconds) => decisions.observe(seconds),
    committed: (outcome, seconds) => commits.observe(seconds, { outcome }),
    leaseExpired: () => leasesExpired.add(),
    fenced: () => fenced.add(),
  };
}

/**
 * Counters, gauges and histograms in the text format of Prometheus. We do not use the usual library because of its memory
 * use.
 */
type Labels = Readonly<Record<string, string | number>>;

interface Description {
  readonly name: string;
  readonly help: string;
}

/** A metric in the text format. */
interface Meter {
  text(): string;
}

const NONE: Labels = {};

abstract class Numbers implements Meter {
  readonly #description: Description;
  readonly #type: string;
  protected readonly values = new Map<string, number>();

  constructor(description: Description, type: string) {
    this.#description = description;
    this.#type = type;
  }

  text(): string {
    const { name } = this.#description;
    const lines = [...this.values].map(([labels, value]) => `${name}${labels} ${value}`);
    return [...formatHeader(this.#description, this.#type), ...lines].join('\n');
  }
}

/** A value that only increases. */
class Counter extends Numbers {
  constructor(description: Description) {
    super(description, 'counter');
  }

  add(labels: Labels = NONE, amount = 1): void {
    const key = formatLabels(labels);
    this.values.set(key, (this.values.get(key) ?? 0) + amount);
  }
}

/** A current value. */
class Gauge extends Numbers {
  constructor(description: Description) {
    super(description, 'gauge');
  }

  set(value: number, labels: Labels = NONE): void {
    this.values.set(formatLabels(labels), value);
  }
}

interface Series {
  readonly labels: Labels;
  readonly counts: number[];
  count: number;
  sum: number;
}

/** Counts values by upper bounds. */
class Histogram implements Meter {
  readonly #description: Description;
  readonly #bounds: readonly number[];
  readonly #series = new Map<string, Series>();

  constructor(description: Description & { readonly buckets: readonly number[] }) {
    this.#description = description;
    this.#bounds = description.buckets;
  }

  observe(value: number, labels: Labels = NONE): void {
    const key = formatLabels(labels);
    const series = this.#series.get(key) ?? { labels, counts: this.#bounds.map(() => 0), count: 0, sum: 0 };
    this.#series.set(key, series);
    const bucket = this.#bounds.findIndex((bound) => value <= bound);
    if (bucket !== -1) series.counts[bucket] = (series.counts[bucket] ?? 0) + 1;
    series.count++;
    series.sum += value;
  }

  text(): string {
    return [
      ...formatHeader(this.#description, 'histogram'),
      ...[...this.#series.values()].flatMap((each) => this.#lines(each)),
    ].join('\n');
  }

  #lines({ labels, counts, count, sum }: Series): string[] {
    const { name } = this.#description;
    let upTo = 0;
    const buckets = this.#bounds.map((le, index) => {
      upTo += counts[index] ?? 0;
      return `${name}_bucket${formatLabels({ ...labels, le })} ${upTo}`;
    });
    const all = `${name}_bucket${formatLabels({ ...labels, le: '+Inf' })} ${count}`;
    return [
      ...buckets,
      all,
      `${name}_sum${formatLabels(labels)} ${sum}`,
      `${name}_count${formatLabels(labels)} ${count}`,
    ];
  }
}

function formatHeader({ name, help }: Description, type: string): string[] {
  return [`# HELP ${name} ${help.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')}`, `# TYPE ${name} ${type}`];
}

/** `{method="GET",status="200"}`, or nothing. */
function formatLabels(labels: Labels): string {
  const pairs = Object.entries(labels).map(([key, value]) => `${key}="${escaped(String(value))}"`);
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
}

const escaped = (value: string) => value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');

/** The content type of the text format. */
const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

/** Metrics of this process, under the names that dashboards use. */
function processMeters(): string {
  const { rss, heapUsed } = process.memoryUsage();
  const { user, system } = process.cpuUsage();
  const cpu = new Counter({ name: 'process_cpu_seconds_total', help: 'CPU time of the manager' });
  cpu.add(NONE, (user + system) / 1e6);
  const gauges: [string, string, number][] = [
    ['process_resident_memory_bytes', 'Resident memory of the manager', rss],
    ['process_start_time_seconds', 'When the manager started', Math.floor(Date.now() / 1000 - process.uptime())],
    ['nodejs_heap_size_used_bytes', 'Heap memory in use', heapUsed],
    ['nodejs_eventloop_utilization', 'Utilisation of the event loop, 0 to 1', loopUtilization()],
  ];
  const meters = gauges.map(([name, help, value]) => {
    const gauge = new Gauge({ name, help });
    gauge.set(value);
    return gauge;
  });
  return [cpu, ...meters].map((meter) => meter.text()).join('\n');
}

const loopUtilization = () => performance.eventLoopUtilization().utilization;
