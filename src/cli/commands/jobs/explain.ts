import type { ClusterClient } from '../../client/cluster-client.ts';
import type { Session } from '../../client/session.ts';
import { type Column, formatTable, printable, show, showValue } from '../../client/table.ts';
import { act, type Register, required, showCommand } from '../command.ts';
import { readService } from '../remote-service.ts';
import { formatDuration } from '../units.ts';
import type { Explanation, Step } from './explanation.ts';
import { FINAL_STATES, lastCluster, originCluster, type RemoteJob } from './remote-job.ts';

const STEPS: readonly Column<Step>[] = [
  { title: 'STEP', of: ({ state }) => state },
  { title: 'AT', of: ({ place }) => place },
  { title: 'TOOK', of: ({ ms }) => (ms === undefined ? '' : formatDuration(ms)) },
  { title: '', of: ({ message }) => message },
];

const GROUPS: readonly Column<Group>[] = [
  { title: 'WHERE', of: ({ place }) => place },
  { title: 'JOBS', of: ({ jobs }) => String(jobs) },
  { title: 'STATE', of: ({ state }) => state },
  { title: 'WHY', of: ({ why }) => why },
];

export const explain: Register = (program, env) => {
  const command = showCommand(
    program,
    'explain <service> [job]',
    'explain where a job ran, why, and how long each step took; without a job, summarize the latest ones',
  );
  act(command, env, async (session, [name, id]) => {
    const service = required(name);
    const cluster = await session.cluster();
    if (id === undefined) await explainService(cluster, service, session);
    else await explainOne(cluster, service, id, session);
  });
};

async function explainService(cluster: ClusterClient, service: string, session: Session): Promise<void> {
  const answer = await cluster.call('GET', jobsPath(service), { about: `service "${service}"` });
  const { jobs } = answer.json() as { jobs: RemoteJob[] };
  if (!session.isForPrograms && jobs.length > 0) session.terminal.note(`# the last ${jobs.length} jobs of ${service}`);
  show(groupJobs(jobs), GROUPS, session, `${service} has no jobs yet: \`oscar job ${service}\` creates one`);
}

async function explainOne(cluster: ClusterClient, service: string, id: string, session: Session): Promise<void> {
  const path = `${jobsPath(service)}/${encodeURIComponent(id)}`;
  // Loaded here because it loads the schema of services, and most commands do not need that.
  const [{ explainJob }, answer, { federation }] = await Promise.all([
    import('./explanation.ts'),
    cluster.call('GET', path, { about: `job "${id}"` }),
    readService(cluster, service),
  ]);
  const explained = explainJob(answer.json() as RemoteJob, federation, Date.now());
  if (session.isForPrograms) return showValue({ id, service, ...explained }, session);
  session.terminal.print(formatExplanation(explained));
}

function formatExplanation({ sentences, steps }: Explanation): string {
  const table = formatTable(steps, STEPS).split('\n');
  return [...sentences.map(printable), '', ...table.map((line) => `  ${line}`)].join('\n');
}

const jobsPath = (service: string) => `/system/jobs/${encodeURIComponent(service)}`;

/** Jobs that ran on the same cluster for the same reason and are in the same state. */
interface Group {
  readonly place: string;
  readonly state: string;
  readonly why: string;
  readonly jobs: number;
}

/** Groups jobs by cluster, state and reason, largest group first. */
export function groupJobs(jobs: readonly RemoteJob[]): Group[] {
  const groups = Map.groupBy(
    jobs.map((job) => ({ place: lastCluster(job) ?? '-', state: job.state, why: summarizeReason(job) })),
    (each) => JSON.stringify(each),
  );
  return [...groups.values()]
    .flatMap(([first, ...more]) => (first ? [{ ...first, jobs: more.length + 1 }] : []))
    .toSorted((a, b) => b.jobs - a.jobs || (a.place < b.place ? -1 : 1));
}

function summarizeReason(job: RemoteJob): string {
  const origin = originCluster(job);
  const place = lastCluster(job);
  const last = job.decisions.at(-1);
  if (place === undefined) return FINAL_STATES.has(job.state) ? `never started: ${job.message}` : job.message;
  if (!last) return place === origin ? 'there was room' : '';
  if (place === origin) {
    return last.chosen === undefined ? 'no member could accept it' : `"${last.policy}" chose it`;
  }
  const before = job.decisions.length - 1;
  const refusals = before === 0 ? '' : `, after ${before} ${before === 1 ? 'refusal' : 'refusals'}`;
  return `"${last.policy}" chose it${refusals}`;
}
