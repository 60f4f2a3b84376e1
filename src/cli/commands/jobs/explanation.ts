import { scoreWord } from '../../../model/service/index.ts';
import { exactly } from '../units.ts';
import { clusterOf, originOf, ranAt, type ToldCandidate, type ToldDecision, type ToldJob } from './told-job.ts';
import { FINAL } from './view.ts';

/** One state of a job, and how long it was in it. The last one of a job that has ended takes no time. */
export interface Step {
  readonly state: string;
  readonly place: string;
  readonly ms?: number;
  readonly message: string;
}

export interface Explained {
  readonly sentences: readonly string[];
  readonly steps: readonly Step[];
}

/** What of a service decides where its jobs go. */
export interface Rules {
  readonly topology: string;
  readonly delegate_when?: string;
}

/** Says in sentences why a job ran where it ran. */
export function explainJob(job: ToldJob, rules: Rules | undefined, now: number): Explained {
  return {
    sentences: [inOneSentence(job), cause(job), ...reasons(job, rules)],
    steps: stepsOf(job, now),
  };
}

function inOneSentence(job: ToldJob): string {
  const { id, state, message, service } = job;
  const place = ranAt(job);
  if (state === 'succeeded') return `${id} succeeded at ${place ?? originOf(job)}.`;
  if (FINAL.has(state)) {
    const where = place === undefined ? 'before it ran anywhere' : `at ${place}`;
    return `${id} ${state === 'failed' ? 'failed' : 'was cancelled'} ${where}: ${message}. \`oscar logs ${service} ${id}\` shows what it printed.`;
  }
  return `${id} is ${state}: ${message}.`;
}

function cause({ trigger, object }: ToldJob): string {
  if (object) return `It came when ${object.bucket}/${object.key} was written.`;
  return trigger === 'run' ? 'It came by a call that waits for the answer.' : 'It came by a call.';
}

function reasons(job: ToldJob, rules: Rules | undefined): string[] {
  const stays = job.timeline.findLast(({ reason }) => reason === 'StaysHere');
  if (stays) return [`It may run at ${originOf(job)} only: ${stays.message}.`];
  if (job.decisions.length === 0) return [withoutDecision(job, rules)];
  const decisions = job.decisions.map((decision, index) => decided(decision, index, job));
  return [whyOthers(job, rules), ...decisions, ...roomAfterAll(job)];
}

function roomAfterAll(job: ToldJob): string[] {
  const waited = job.decisions.at(-1)?.chosen === undefined && ranAt(job) === originOf(job);
  return waited ? [`There was room at ${originOf(job)} before anybody else had some.`] : [];
}

/** Nobody was asked. */
function withoutDecision(job: ToldJob, rules: Rules | undefined): string {
  const origin = originOf(job);
  const place = ranAt(job);
  if (job.trigger === 'run') return `Whoever waits for an answer waits at ${origin}: such jobs run there.`;
  if (!rules || rules.topology === 'none') return `Its service is on ${origin} alone, so it runs there.`;
  if (place === undefined) return `Nobody else was asked so far.`;
  if (place !== origin) return `It was sent to ${place}; why is not on record any more.`;
  return `There was room at ${origin}, so nobody else was asked.`;
}

function whyOthers(job: ToldJob, rules: Rules | undefined): string {
  return rules?.delegate_when === 'always'
    ? 'Every job of this service is offered to its members (delegate_when: always).'
    : `${originOf(job)} had no room for it, so members were asked.`;
}

function decided({ policy, chosen, candidates }: ToldDecision, index: number, job: ToldJob): string {
  const refused = candidates.filter(({ refusal }) => refusal !== undefined);
  const able = candidates.filter(({ refusal }) => refusal === undefined);
  const word = index === 0 ? (job.decisions.length > 1 ? 'First the' : 'The') : 'Then the';
  const left = refused.length > 0 ? ` Not ${refused.map(notThis).join('; not ')}.` : '';
  if (chosen === undefined)
    return `${index === 0 ? 'Nobody' : 'Then nobody'} could take it, and it waited at ${originOf(job)}.${left}`;
  const others = able.filter(({ member }) => member !== chosen).map((each) => withFigure(each, policy));
  const first = able.find(({ member }) => member === chosen) ?? { member: chosen };
  const before = others.length > 0 ? `, before ${others.join(' and ')}` : '';
  const itself = clusterOf(chosen) === originOf(job) ? ', which is where it came' : '';
  return `${word} policy "${policy}" chose ${withFigure(first, policy)}${itself}${before}.${left}`;
}

const notThis = ({ member, refusal = '' }: ToldCandidate) => `${member}: ${refusal}`;

function withFigure({ member, score, age }: ToldCandidate, policy: string): string {
  const word = scoreWord(policy);
  if (word === undefined) return member;
  if (score === undefined) {
    return `${member} (${age === undefined ? 'nothing is known of it' : `its figures were ${age} s old`})`;
  }
  // What the definition says does not age.
  const since = age === undefined || policy === 'static' ? '' : `, ${age} s before`;
  return `${member} (${word} ${score}${since})`;
}

function stepsOf(job: ToldJob, now: number): Step[] {
  const { timeline } = job;
  const steps = timeline.map(({ state, at, message, place }, index): Step => {
    const next = timeline[index + 1]?.at;
    const end = next === undefined ? now : Date.parse(next);
    const ran = state === 'delegated' || state === 'running' ? scriptTime(job, place) : '';
    const step = { state, place, message: `${message}${ran}` };
    return FINAL.has(state) ? step : { ...step, ms: Math.max(0, end - Date.parse(at)) };
  });
  // It is accepted and waits in one go.
  return steps.filter(({ state, ms }) => state !== 'accepted' || ms !== 0);
}

function scriptTime({ attempts }: ToldJob, place: string): string {
  const { started_at, finished_at } = attempts.findLast((each) => each.place === place) ?? {};
  if (started_at === undefined || finished_at === undefined) return '';
  return `; its script took ${exactly(Date.parse(finished_at) - Date.parse(started_at))}`;
}
