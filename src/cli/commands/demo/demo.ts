import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Secret } from '../../../lib/secret.ts';
import type { ClusterClient } from '../../client/cluster-client.ts';
import { ClientError } from '../../client/errors.ts';
import { IssuerClient } from '../../client/issuer.ts';
import { Session } from '../../client/session.ts';
import { type Column, tableOf } from '../../client/table.ts';
import type { Terminal } from '../../client/terminal.ts';
import { ranAt, type ToldJob } from '../jobs/told-job.ts';
import { FINAL } from '../jobs/view.ts';
import { applyFile } from '../services/apply.ts';
import { clusterStore, providerStore } from '../storage/store.ts';
import { uploadFile } from '../storage/transfer.ts';
import { exactly } from '../units.ts';

/** The coordinator runs two at a time, and each of two members four. */
const PICTURES = 16;

/** Often enough to see it go. */
const LOOK_MS = 200;

const WHO = 'alice';

/** Where the examples put their results. */
const RESULTS = 'minio.shared';

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
  const course = new DemoProgress(PICTURES, Date.now());
  const began = performance.now();
  // Pictures that arrive are seen soon enough.
  const silent = new Session({ config, quiet: true }, env).terminal;
  await Promise.all([
    putAll(pictures.files, shown, cluster, silent),
    watch(course, stems, { service: shown.service, cluster, terminal, stop }),
  ]);
  if (stop.aborted) return;
  terminal.print(`\n${tableOf(rowsOf(course.jobs), COLUMNS)}\n`);
  await expectResults(stems, shown, session);
  const took = exactly(performance.now() - began);
  terminal.print(`All ${PICTURES} pictures are grey after ${took}: they are in ${RESULTS}:${shown.service}/out.`);
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
  const store = clusterStore(cluster);
  const put = (file: string) => uploadFile(file, { bucket: service, key: `in/${basename(file)}` }, store, terminal);
  await Promise.all(files.map(put));
}

/** What is looked at, from where, and until when at most. */
interface View {
  readonly service: string;
  readonly cluster: ClusterClient;
  readonly terminal: Terminal;
  readonly stop: AbortSignal;
}

async function watch(course: DemoProgress, stems: readonly string[], view: View): Promise<void> {
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

async function expectResults(stems: readonly string[], { service, resultOf }: Shown, session: Session) {
  const store = await providerStore(session.config.provider(RESULTS));
  const found = await store.objects({ provider: RESULTS, bucket: service, key: 'out/' });
  const there = new Set(found.map(({ object_name }) => object_name));
  const missing = stems.map((stem) => `out/${resultOf(stem)}`).filter((key) => !there.has(key));
  if (missing.length === 0) return;
  const said = `${missing.length} of ${stems.length} results are not there, such as ${service}/${missing[0]}`;
  throw new ClientError('job-failed', `${said}: start \`oscar up\` again, and \`oscar explain ${service}\` shows why`);
}

/** Follows the jobs of a demonstration, and tells what is new in them. */
export class DemoProgress {
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
    const running = this.jobs.filter((job) => !FINAL.has(job.state) && ranAt(job) !== undefined);
    const places = Map.groupBy(running, (job) => ranAt(job) ?? '');
    const here = [...places].map(([place, jobs]) => `${place}: ${jobs.map(nameOf).join(' ')}`);
    const done = this.jobs.filter(({ state }) => FINAL.has(state)).length;
    return [...here.toSorted(), `${done} of ${this.#count} done`].join(' | ');
  }
}

function newsOf(job: ToldJob): string | undefined {
  const place = ranAt(job);
  if (job.state === 'succeeded') return `is grey, from ${place}`;
  if (FINAL.has(job.state)) return `${job.state} at ${place}: ${job.message}`;
  const { policy, chosen } = job.decisions.at(-1) ?? {};
  if (place !== undefined) return chosen === undefined ? `runs at ${place}` : `runs at ${place}: "${policy}" chose it`;
  return policy !== undefined && chosen === undefined ? 'waits: all of them are full' : undefined;
}

/** `07` of `in/picture-x1-07.ppm`. */
const nameOf = ({ object }: ToldJob) => /(\d+)\.ppm$/.exec(object?.key ?? '')?.[1] ?? '?';

/** Large enough that a script has to do for about a second, small enough that many are uploaded in a moment. */
const WIDTH = 480;
const HEIGHT = 360;

/** Colours of three hues in stripes that lie another way in each picture: plain PPM, which any program reads. */
function picture(index: number): string {
  const lines: string[] = ['P3', `# picture ${index} of a demonstration`, `${WIDTH} ${HEIGHT}`, '255'];
  for (let y = 0; y < HEIGHT; y++) {
    let line = '';
    for (let x = 0; x < WIDTH; x++) {
      const hue = (x * index + y * 3) % 256;
      line += `${hue} ${255 - hue} ${(x + y) % 256} `;
    }
    lines.push(line);
  }
  return `${lines.join('\n')}\n`;
}

/** An example that turns pictures grey. */
interface Shown {
  readonly file: string;
  readonly service: string;
  /** What becomes of `x.ppm`. */
  readonly resultOf: (stem: string) => string;
  /** For people. */
  readonly remark: string;
}

const example = (name: string) => fileURLToPath(new URL(`../../../../examples/${name}`, import.meta.url));

const QUICKSTART: Shown = {
  file: example('quickstart.yaml'),
  service: 'grayifyr0',
  resultOf: (stem) => `${stem}.ppm`,
  remark: 'examples/quickstart.yaml: ImageMagick turns pictures grey',
};

const SHELL: Shown = {
  file: example('grey.yaml'),
  service: 'grey0',
  resultOf: (stem) => `${stem}.pgm`,
  remark: 'examples/grey.yaml: a shell script turns pictures grey',
};

/**
 * The quickstart, where its script finds ImageMagick. In containers it would have it, but the image is large to fetch for
 * somebody who looks on: the other one needs nothing but a shell.
 */
async function whatToShow(cluster: ClusterClient, env: NodeJS.ProcessEnv): Promise<Shown> {
  const { runtime } = (await cluster.call('GET', '/system/info')).json() as { runtime?: string };
  return runtime?.startsWith('process') && hasImageMagick(env) ? QUICKSTART : SHELL;
}

/** Others have programs of these names, too. */
function hasImageMagick(env: NodeJS.ProcessEnv): boolean {
  return ['magick', 'convert'].some((name) => {
    const { stdout } = spawnSync(name, ['-version'], { env, encoding: 'utf8', timeout: 5_000 });
    return stdout?.includes('ImageMagick') ?? false;
  });
}
