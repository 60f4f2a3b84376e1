import { scoreWord } from '../../../model/service/index.ts';
import { formatDuration } from '../units.ts';
import {
  FINAL_STATES,
  lastCluster,
  memberCluster,
  originCluster,
  type RemoteCandidate,
  type RemoteDecision,
  type RemoteJob,
} from './remote-job.ts';

/** One state of a job and how long it lasted. The final state has no duration. */
export interface Step {
  readonly state: string;
  readonly place: string;
  readonly ms?: number;
  readonly message: string;
}

export interface Explanation {
  readonly sentences: readonly string[];
  readonly steps: readonly Step[];
}

/** The settings of a service that decide where its jobs run. */
export interface DelegationRules {
  readonly topology: string;
  readonly delegate_when?: string;
}

/** Explains in sentences why a job ran where it ran. */
export function explainJob(job: RemoteJob, rules: DelegationRules | undefined, now: number): Explanation {
  return {
    sentences: [describeOutcome(job), describeTrigger(job), ...describePlacement(job, rules)],
    steps: toSteps(job, now),
  };
}

function describeOutcome(job: RemoteJob): string {
  const { id, state, message, service } = job;
  const place = lastCluster(job);
  if (state === 'succeeded') return `${id} succeeded on ${place ?? originCluster(job)}.`;
  if (FINAL_STATES.has(state)) {
    const where = place === undefined ? 'before it started' : `on ${place}`;
    return `${id} ${state === 'failed' ? 'failed' : 'was cancelled'} ${where}: ${message}. \`oscar logs ${service} ${id}\` shows what it printed.`;
  }
  return `${id} is ${state}: ${message}.`;
}

function describeTrigger({ trigger, object }: RemoteJob): string {
  if (object) return `It was triggered by ${object.bucket}/${object.key}.`;
  return trigger === 'run' ? 'It was called synchronously.' : 'It was called asynchronously.';
}

function describePlacement(job: RemoteJob, rules: DelegationRules | undefined): string[] {
  const stays = job.timeline.findLast(({ reason }) => reason === 'StaysHere');
  if (stays) return [`It can only run on ${originCluster(job)}: ${stays.message}.`];
  if (job.decisions.length === 0) return [describeNoDecision(job, rules)];
  const decisions = job.decisions.map((decision, index) => describeDecision(decision, index, job));
  return [describeOffering(job, rules), ...decisions, ...describeLocalRoom(job)];
}

function describeLocalRoom(job: RemoteJob): string[] {
  const waited = job.decisions.at(-1)?.chosen === undefined && lastCluster(job) === originCluster(job);
  return waited ? [`${originCluster(job)} had room before any member had.`] : [];
}

function describeNoDecision(job: RemoteJob, rules: DelegationRules | undefined): string {
  const origin = originCluster(job);
  const place = lastCluster(job);
  if (job.trigger === 'run') return `Synchronous calls run on the cluster that was called, ${origin}.`;
  if (!rules || rules.topology === 'none') return `Its service has no members, so it runs on ${origin}.`;
  if (place === undefined) return `No member was asked yet.`;
  if (place !== origin) return `It was delegated to ${place}; the decision is no longer stored.`;
  return `${origin} had room, so no member was asked.`;
}

function describeOffering(job: RemoteJob, rules: DelegationRules | undefined): string {
  return rules?.delegate_when === 'always'
    ? 'Every job of this service is offered to its members (delegate_when: always).'
    : `${originCluster(job)} had no room for it, so it was offered to members.`;
}

function describeDecision({ policy, chosen, candidates }: RemoteDecision, index: number, job: RemoteJob): string {
  const refused = candidates.filter(({ refusal }) => refusal !== undefined);
  const able = candidates.filter(({ refusal }) => refusal === undefined);
  const word = index === 0 ? (job.decisions.length > 1 ? 'First the' : 'The') : 'Then the';
  const left = refused.length > 0 ? ` Refused: ${refused.map(formatRefusal).join('; ')}.` : '';
  if (chosen === undefined)
    return `${index === 0 ? 'No' : 'Then no'} member could accept it, so it waited on ${originCluster(job)}.${left}`;
  const others = able.filter(({ member }) => member !== chosen).map((each) => formatCandidate(each, policy));
  const first = able.find(({ member }) => member === chosen) ?? { member: chosen };
  const before = others.length > 0 ? `, before ${others.join(' and ')}` : '';
  const itself = memberCluster(chosen) === originCluster(job) ? ', the origin' : '';
  return `${word} policy "${policy}" chose ${formatCandidate(first, policy)}${itself}${before}.${left}`;
}

const formatRefusal = ({ member, refusal = '' }: RemoteCandidate) => `${member}: ${refusal}`;

function formatCandidate({ member, score, age }: RemoteCandidate, policy: string): string {
  const word = scoreWord(policy);
  if (word === undefined) return member;
  if (score === undefined) {
    return `${member} (${age === undefined ? 'no metrics' : `metrics ${age} s old`})`;
  }
  // A priority comes from the definition and does not age.
  const since = age === undefined || policy === 'static' ? '' : `, ${age} s old`;
  return `${member} (${word} ${score}${since})`;
}

function toSteps(job: RemoteJob, now: number): Step[] {
  const { timeline } = job;
  const steps = timeline.map(({ state, at, message, place }, index): Step => {
    const next = timeline[index + 1]?.at;
    const end = next === undefined ? now : Date.parse(next);
    const ran = state === 'delegated' || state === 'running' ? scriptTime(job, place) : '';
    const step = { state, place, message: `${message}${ran}` };
    return FINAL_STATES.has(state) ? step : { ...step, ms: Math.max(0, end - Date.parse(at)) };
  });
  // Most jobs are accepted and queued in one write.
  return steps.filter(({ state, ms }) => state !== 'accepted' || ms !== 0);
}

function scriptTime({ attempts }: RemoteJob, place: string): string {
  const { started_at, finished_at } = attempts.findLast((each) => each.place === place) ?? {};
  if (started_at === undefined || finished_at === undefined) return '';
  return `; its script took ${formatDuration(Date.parse(finished_at) - Date.parse(started_at))}`;
}
