import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Secret } from '../../../base/secret.ts';
import type { ClusterClient } from '../../client/cluster-client.ts';
import { ClientError } from '../../client/errors.ts';
import { IssuerClient } from '../../client/issuer.ts';
import { Session } from '../../client/session.ts';
import { type Column, tableOf } from '../../client/table.ts';
import type { Terminal } from '../../client/terminal.ts';
import type { ToldJob } from '../jobs/told-job.ts';
import { applyFile } from '../services/apply.ts';
import { objectsOf } from '../storage/objects.ts';
import { upload } from '../storage/transfer.ts';
import { exactly } from '../units.ts';
import { Course } from './course.ts';
import { picture } from './pictures.ts';
import { type Shown, whatToShow } from './what-to-show.ts';

/** The coordinator runs two at a time, and each of two members four. */
const PICTURES = 16;

/** Often enough to see it go. */
const LOOK_MS = 200;

const WHO = 'alice';

interface DemoOptions {
  readonly config: string;
  readonly quiet: boolean;
  /** Is everything still there afterwards? */
  readonly keep: boolean;
}

/** `oscar up --demo`: makes the federated service of the quickstart, gives it more than one cluster can do, and looks on. */
export async function demo(
  { config, quiet, keep }: DemoOptions,
  env: NodeJS.ProcessEnv,
  stop: AbortSignal,
): Promise<void> {
  const session = new Session({ config, quiet }, env);
  const { terminal } = session;
  await logIn(session);
  const cluster = await session.cluster();
  const shown = await whatToShow(cluster, env);
  terminal.note(`\n# ${shown.remark}`);
  await applyFile(shown.file, session);

  const stems = namesOfPictures();
  using pictures = paint(stems);
  terminal.note(`\n# ${PICTURES} pictures into ${shown.service}/in, more than ${cluster.id} can do at once`);
  const course = new Course(PICTURES, Date.now());
  const began = performance.now();
  // Pictures that arrive are seen soon enough.
  const silent = new Session({ config, quiet: true }, env).terminal;
  await Promise.all([
    putAll(pictures.files, shown, cluster, silent),
    watch(course, stems, { service: shown.service, cluster, terminal, stop }),
  ]);
  if (stop.aborted) return;
  terminal.print(`\n${tableOf(rowsOf(course.jobs), COLUMNS)}\n`);
  await expectResults(stems, shown, cluster);
  terminal.print(
    `All ${PICTURES} pictures are grey after ${exactly(performance.now() - began)}: they are in ${shown.service}/out.`,
  );
  if (keep)
    terminal.note(`\`npx oscar explain ${shown.service}\`, in another terminal, says why they went where they went.`);
}

async function logIn(session: Session): Promise<void> {
  const clusters = [...session.config.clusters];
  const issuer = clusters[0]?.[1].oidc_issuer ?? '';
  const client = await IssuerClient.discover(issuer, clusters[0]?.[1].oidc_client_id ?? '');
  const tokens = await client.withPassword(WHO, new Secret(WHO));
  const login = { issuer, clientId: client.clientId, user: WHO };
  await session.logins.put(
    issuer,
    login,
    tokens,
    clusters.map(([id]) => id),
  );
  session.terminal.note(`# logged in as ${WHO}`);
}

/** New ones each time: an earlier demonstration may have left some. */
function namesOfPictures(): string[] {
  const run = Math.floor(Date.now() / 1000).toString(36);
  return Array.from({ length: PICTURES }, (_, index) => `picture-${run}-${String(index + 1).padStart(2, '0')}`);
}

/** The pictures as files, until it is disposed of. */
function paint(stems: readonly string[]): Disposable & { readonly files: readonly string[] } {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-demo-'));
  const files = stems.map((stem) => join(directory, `${stem}.ppm`));
  for (const [index, file] of files.entries()) writeFileSync(file, picture(index + 1));
  return { files, [Symbol.dispose]: () => rmSync(directory, { recursive: true, force: true }) };
}

/** All at once: while the first ones run, the others are there. */
async function putAll(files: readonly string[], { service }: Shown, cluster: ClusterClient, terminal: Terminal) {
  const put = (file: string) => upload(file, { bucket: service, key: `in/${basename(file)}` }, cluster, terminal);
  await Promise.all(files.map(put));
}

/** What is looked at, from where, and until when at most. */
interface View {
  readonly service: string;
  readonly cluster: ClusterClient;
  readonly terminal: Terminal;
  readonly stop: AbortSignal;
}

async function watch(course: Course, stems: readonly string[], view: View): Promise<void> {
  const { service, cluster, terminal, stop } = view;
  const keys = new Set(stems.map((stem) => `in/${stem}.ppm`));
  while (!course.isOver && !stop.aborted) {
    const answer = await cluster.call('GET', `/system/jobs/${service}`);
    const jobs = (answer.json() as { jobs: ToldJob[] }).jobs.filter(({ object }) => keys.has(object?.key ?? ''));
    for (const line of course.see(jobs.toReversed(), Date.now())) terminal.print(line);
    terminal.status(course.line);
    await pause(LOOK_MS, undefined, { signal: stop }).catch(() => undefined);
  }
  terminal.status('');
}

interface Row {
  readonly place: string;
  readonly jobs: readonly ToldJob[];
}

const COLUMNS: readonly Column<Row>[] = [
  { title: 'CLUSTER', of: ({ place }) => place },
  { title: 'PICTURES', of: ({ jobs }) => String(jobs.length) },
  { title: 'SCRIPTS TOOK', of: ({ jobs }) => exactly(jobs.reduce((sum, job) => sum + scriptMs(job), 0)) },
];

const rowsOf = (jobs: readonly ToldJob[]): Row[] =>
  [...Map.groupBy(jobs, ({ attempts }) => attempts.at(-1)?.place ?? '-')]
    .map(([place, there]) => ({ place, jobs: there }))
    .toSorted((a, b) => (a.place < b.place ? -1 : 1));

const scriptMs = ({ started_at, finished_at }: ToldJob) =>
  started_at && finished_at ? Date.parse(finished_at) - Date.parse(started_at) : 0;

async function expectResults(stems: readonly string[], { service, resultOf }: Shown, cluster: ClusterClient) {
  const there = new Set((await objectsOf(cluster, service)).map(({ object_name }) => object_name));
  const missing = stems.map((stem) => `out/${resultOf(stem)}`).filter((key) => !there.has(key));
  if (missing.length === 0) return;
  const said = `${missing.length} of ${stems.length} results are not there, such as ${service}/${missing[0]}`;
  throw new ClientError('job-failed', `${said}: start \`oscar up\` again, and \`oscar explain ${service}\` shows why`);
}
