/**
 * Counters, gauges and histograms in the text format of Prometheus. Ours, because the usual library costs more memory than
 * all that it would count here.
 */
type Labels = Readonly<Record<string, string | number>>;

interface Description {
  readonly name: string;
  readonly help: string;
}

/** Something that Prometheus can be told. */
export interface Meter {
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
    return [...headOf(this.#description, this.#type), ...lines].join('\n');
  }
}

/** Only ever grows. */
export class Counter extends Numbers {
  constructor(description: Description) {
    super(description, 'counter');
  }

  add(labels: Labels = NONE, amount = 1): void {
    const key = written(labels);
    this.values.set(key, (this.values.get(key) ?? 0) + amount);
  }
}

/** What is so now. */
export class Gauge extends Numbers {
  constructor(description: Description) {
    super(description, 'gauge');
  }

  set(value: number, labels: Labels = NONE): void {
    this.values.set(written(labels), value);
  }
}

interface Series {
  readonly labels: Labels;
  readonly counts: number[];
  count: number;
  sum: number;
}

/** How often a value was up to each of these bounds. */
export class Histogram implements Meter {
  readonly #description: Description;
  readonly #bounds: readonly number[];
  readonly #series = new Map<string, Series>();

  constructor(description: Description & { readonly buckets: readonly number[] }) {
    this.#description = description;
    this.#bounds = description.buckets;
  }

  observe(value: number, labels: Labels = NONE): void {
    const key = written(labels);
    const series = this.#series.get(key) ?? { labels, counts: this.#bounds.map(() => 0), count: 0, sum: 0 };
    this.#series.set(key, series);
    const bucket = this.#bounds.findIndex((bound) => value <= bound);
    if (bucket !== -1) series.counts[bucket] = (series.counts[bucket] ?? 0) + 1;
    series.count++;
    series.sum += value;
  }

  text(): string {
    return [
      ...headOf(this.#description, 'histogram'),
      ...[...this.#series.values()].flatMap((each) => this.#lines(each)),
    ].join('\n');
  }

  #lines({ labels, counts, count, sum }: Series): string[] {
    const { name } = this.#description;
    let upTo = 0;
    const buckets = this.#bounds.map((le, index) => {
      upTo += counts[index] ?? 0;
      return `${name}_bucket${written({ ...labels, le })} ${upTo}`;
    });
    const all = `${name}_bucket${written({ ...labels, le: '+Inf' })} ${count}`;
    return [...buckets, all, `${name}_sum${written(labels)} ${sum}`, `${name}_count${written(labels)} ${count}`];
  }
}

function headOf({ name, help }: Description, type: string): string[] {
  return [`# HELP ${name} ${help.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')}`, `# TYPE ${name} ${type}`];
}

/** `{method="GET",status="200"}`, or nothing. */
function written(labels: Labels): string {
  const pairs = Object.entries(labels).map(([key, value]) => `${key}="${escaped(String(value))}"`);
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
}

const escaped = (value: string) => value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');

/** The content type of such a text. */
export const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

/** What of this process is worth watching, by the names that dashboards know. */
export function processMeters(): string {
  const { rss, heapUsed } = process.memoryUsage();
  const { user, system } = process.cpuUsage();
  const cpu = new Counter({ name: 'process_cpu_seconds_total', help: 'CPU time of the manager' });
  cpu.add(NONE, (user + system) / 1e6);
  const gauges: [string, string, number][] = [
    ['process_resident_memory_bytes', 'Resident memory of the manager', rss],
    ['process_start_time_seconds', 'When the manager started', Math.floor(Date.now() / 1000 - process.uptime())],
    ['nodejs_heap_size_used_bytes', 'Memory of its objects', heapUsed],
    ['nodejs_eventloop_utilization', 'Part of the time that its one thread was busy', loopUtilization()],
  ];
  const meters = gauges.map(([name, help, value]) => {
    const gauge = new Gauge({ name, help });
    gauge.set(value);
    return gauge;
  });
  return [cpu, ...meters].map((meter) => meter.text()).join('\n');
}

const loopUtilization = () => performance.eventLoopUtilization().utilization;
