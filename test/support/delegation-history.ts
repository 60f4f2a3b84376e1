import type { SeenJob } from './jobs.ts';

/** Everything that can be observed from outside after a run in which jobs ran on several clusters. */
export interface History {
  /** The cluster that coordinates each service. */
  readonly origins: Readonly<Record<string, string>>;
  readonly kinds: Readonly<Record<string, Kind>>;
  readonly asked: readonly Asked[];
  /** The jobs of these services, as their coordinators report them. */
  readonly jobs: readonly HistoricJob[];
  /** The jobs that the members report for these services. */
  readonly taken: readonly HistoricJob[];
  /** What the scripts have recorded, outside of every store. */
  readonly runs: readonly Run[];
  /** The objects in the outputs. */
  readonly objects: readonly Result[];
  /** The results for which a following service got an event, one entry per event. */
  readonly told: readonly Pick<Result, 'service' | 'key'>[];
  /** The objects in the staging areas. */
  readonly staged: readonly string[];
  readonly disturbances: readonly Disturbance[];
}

/** What a script does, chosen by its input. */
export interface Kind {
  /** How its job must end: state, reason, exit code. */
  readonly ends: readonly [string, string, number];
  /** How many files it writes. */
  readonly results: number;
}

/** One request to a manager: an upload or a call, which was answered or whose outcome is unknown. */
export interface Asked {
  readonly service: string;
  readonly kind: string;
  /** Of an upload. */
  readonly key?: string;
  /** Of a call that was answered. */
  id?: string;
  acknowledged: boolean;
  /** A user asked to cancel it. */
  cancelled?: boolean;
}

export interface HistoricJob extends SeenJob {
  readonly accepted_at: string;
  readonly finished_at?: string;
  readonly timeline: readonly (SeenJob['timeline'][number] & { readonly at: string })[];
}

export interface Run {
  readonly run: string;
  readonly job: string;
  /** The name of the attempt, which is also the name of its directory. */
  readonly attempt: string;
  readonly service: string;
  readonly kind: string;
  readonly begunAt: number;
  readonly endedAt?: number;
}

export interface Result {
  /** The cluster of the coordinator, which has the output. */
  readonly service: string;
  readonly key: string;
  /** Its metadata `oscar-attempt`. */
  readonly mark: string;
  /** The content of the object. */
  readonly job: string;
  readonly run: string;
}

export interface Disturbance {
  readonly what: string;
  /** The cluster whose store could not be reached by then, if that is what it was. */
  readonly store?: string;
  readonly from: number;
  until: number;
}

/** A violation of a guarantee. */
export interface Violation {
  /** The job that it is about. */
  readonly job: string;
  readonly rule: string;
}

const FINAL = new Set(['succeeded', 'failed', 'cancelled']);

/** All violations in a history. All faults must have been repaired before its end. */
export function violationsOf(history: History): Violation[] {
  return [
    ...lost(history),
    ...unfinished(history),
    ...history.jobs.flatMap((job) => wrongEnd(job, history)),
    ...history.jobs.flatMap((job) => wrongResults(job, history)),
    ...strangeResults(history),
    ...toldWrongly(history),
    ...ranTwice(history),
    ...history.staged.map((key) => ({ job: key.split('/')[1] ?? key, rule: `${key} is left in staging` })),
  ];
}

/** Every acknowledged call and every acknowledged upload has exactly one job. */
function lost({ asked, jobs }: History): Violation[] {
  return asked
    .filter(({ acknowledged }) => acknowledged)
    .flatMap(({ service, key, id }) => {
      const found = jobs.filter((job) => job.service === service && (key ? job.object?.key === key : job.id === id));
      const rule = `${found.length} jobs of what was acknowledged as ${key ?? id}`;
      return found.length === 1 ? [] : [{ job: id ?? found[0]?.id ?? `${service} ${key}`, rule }];
    });
}

function unfinished({ jobs, taken }: History): Violation[] {
  return [...jobs, ...taken]
    .filter(({ state }) => !FINAL.has(state))
    .map(({ id, service, state, message }) => ({ job: id, rule: `${service}/${id} is ${state}: ${message}` }));
}

/** The record agrees with what the script did. */
function wrongEnd(job: HistoricJob, history: History): Violation[] {
  if (!FINAL.has(job.state)) return [];
  const kind = history.kinds[kindOf(job, history) ?? ''];
  const reason = job.timeline.at(-1)?.reason ?? '';
  const wrong = (rule: string) => [{ job: job.id, rule: `${rule}; it is ${job.state}, ${reason}, ${job.exit_code}` }];
  if (job.state === 'cancelled') {
    return isCancelled(job, history) ? [] : wrong('nobody has cancelled it');
  }
  if (hadNoStore(job, reason, history)) return [];
  // The input of a call that got no answer is known only from the runs.
  if (!kind) return wrong('it has ended, and never ran');
  const ends = [job.state, reason, job.exit_code];
  return ends.every((each, index) => each === kind.ends[index]) ? [] : wrong(`it should be ${kind.ends.join(', ')}`);
}

/** A job that ran at the origin while the origin's store was unreachable: it must have failed with that reason. */
function hadNoStore(job: HistoricJob, reason: string, { origins, disturbances }: History): boolean {
  const place = origins[job.service];
  if (job.state !== 'failed' || (reason !== 'InputFailed' && reason !== 'OutputFailed')) return false;
  if (job.attempts.at(-1)?.place !== place) return false;
  const [from, until] = [Date.parse(job.accepted_at), Date.parse(job.finished_at ?? '')];
  return disturbances.some((each) => each.store === place && each.from <= until && each.until >= from);
}

/** All results are of one run, that of the current attempt; if the job succeeded, they are complete. */
function wrongResults(job: HistoricJob, history: History): Violation[] {
  const results = history.objects.filter((each) => each.service === job.service && each.job === job.id);
  const wrong = (rule: string) => ({ job: job.id, rule });
  const reason = job.timeline.at(-1)?.reason;
  if (job.state !== 'succeeded') {
    return results.length === 0 || reason === 'OutputFailed' ? [] : [wrong(`it is ${job.state} and has results`)];
  }
  const found: Violation[] = [];
  const kind = history.kinds[kindOf(job, history) ?? ''];
  if (results.length !== kind?.results) found.push(wrong(`it has ${results.length} results, not ${kind?.results}`));
  const [last] = job.attempts.toSorted((a, b) => b.epoch - a.epoch);
  const mark = last?.place === history.origins[job.service] ? last?.name : `${job.id}/${last?.epoch}`;
  for (const result of results) {
    const run = history.runs.find((each) => each.run === result.run);
    if (result.mark !== mark) found.push(wrong(`${result.key} is marked ${result.mark}, and what counts is ${mark}`));
    if (run?.attempt !== last?.name) found.push(wrong(`${result.key} is of ${run?.attempt}, not of ${last?.name}`));
    if (run?.endedAt === undefined) found.push(wrong(`${result.key} is of a run that did not end`));
  }
  return found;
}

function strangeResults({ objects, jobs }: History): Violation[] {
  return objects
    .filter((each) => !jobs.some(({ service, id }) => service === each.service && id === each.job))
    .map(({ job, service, key }) => ({ job, rule: `${service}/${key} is the result of no job there is` }));
}

/** A following service gets one event for each result, and no others. */
function toldWrongly({ objects, told }: History): Violation[] {
  const names = new Set([...objects, ...told].map(({ service, key }) => `${service}/${key}`));
  const count = (all: History['told'], name: string) =>
    all.filter(({ service, key }) => `${service}/${key}` === name).length;
  return [...names].flatMap((name) => {
    const [there, times] = [count(objects, name), count(told, name)];
    const job = objects.find(({ service, key }) => `${service}/${key}` === name)?.job ?? name;
    return there === 1 && times === 1 ? [] : [{ job, rule: `${name} is there ${there} times, and was told ${times}` }];
  });
}

/** A job may run several times, an attempt only once; and each run belongs to a known attempt. */
function ranTwice({ runs, jobs }: History): Violation[] {
  const byAttempt = Map.groupBy(runs, ({ attempt }) => attempt);
  const twice = [...byAttempt].flatMap(([attempt, all]) =>
    all.length === 1 ? [] : [{ job: all[0]?.job ?? '', rule: `the attempt ${attempt} ran ${all.length} times` }],
  );
  const known = new Set(jobs.map(({ id }) => id));
  const stray = runs.filter(({ job }) => !known.has(job));
  return [...twice, ...stray.map(({ job, run }) => ({ job, rule: `the run ${run} is of no job there is` }))];
}

function kindOf(job: HistoricJob, { runs, asked }: History): string | undefined {
  return runs.find((run) => run.job === job.id)?.kind ?? askedFor(job, asked)?.kind;
}

const isCancelled = (job: HistoricJob, { asked }: History) => askedFor(job, asked)?.cancelled === true;

const askedFor = (job: HistoricJob, asked: readonly Asked[]) =>
  asked.find(({ service, key, id }) => service === job.service && (key ? key === job.object?.key : id === job.id));

/** Everything that is known about one job, in order of time, for debugging. */
export function storyOf(job: string, history: History): string {
  const { jobs, taken, runs, objects, disturbances } = history;
  const own = jobs.find(({ id }) => id === job);
  const [mine, attempts] = [runs.filter((run) => run.job === job), new Set<string>()];
  for (const { name } of own?.attempts ?? []) attempts.add(name);
  for (const { attempt } of mine) attempts.add(attempt);
  const records = [...(own ? [own] : []), ...taken.filter(({ id }) => attempts.has(id))];
  const lines = [
    ...records.flatMap(({ service, timeline }) =>
      timeline.map(({ at, state, reason, message, place }) => ({
        at: Date.parse(at),
        words: `${place} ${service}: ${state} (${reason}): ${message}`,
      })),
    ),
    ...mine.flatMap(({ run, attempt, service, begunAt, endedAt }) => [
      { at: begunAt, words: `${service} begins run ${run} of ${attempt}` },
      ...(endedAt === undefined ? [] : [{ at: endedAt, words: `${service} ends run ${run}` }]),
    ]),
  ].toSorted((a, b) => a.at - b.at);
  const [first, last] = [lines[0]?.at ?? 0, lines.at(-1)?.at ?? 0];
  const near = disturbances
    .filter(({ from, until }) => from <= last && until >= first - 1_000)
    .flatMap(({ what, from, until }) => [
      { at: from, words: `  > ${what}` },
      { at: until, words: `  < ${what}` },
    ]);
  return [
    `the story of ${job}:`,
    ...[...lines, ...near]
      .toSorted((a, b) => a.at - b.at)
      .map(({ at, words }) => `  ${new Date(at).toISOString().slice(11, 23)} ${words}`),
    `  attempts: ${JSON.stringify(own?.attempts)}`,
    `  results: ${JSON.stringify(objects.filter((each) => each.job === job))}`,
  ].join('\n');
}
