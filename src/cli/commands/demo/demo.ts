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
import { type Column, formatTable } from '../../client/table.ts';
import type { Terminal } from '../../client/terminal.ts';
import { FINAL_STATES, lastCluster, type RemoteJob } from '../jobs/remote-job.ts';
import { applyFile } from '../services/apply.ts';
import { clusterStore, providerStore } from '../storage/store.ts';
import { uploadFile } from '../storage/transfer.ts';
import { formatDuration } from '../units.ts';

/** More than the coordinator (two at a time) and two members (four each) can run at once. */
const PICTURES = 16;

/** How often the jobs are read. Shorter: smoother. Longer: fewer requests. */
const POLL_MS = 200;

const USER = 'alice';

/** The store that the examples write their results to. */
const RESULTS = 'minio.shared';

interface DemoOptions {
  readonly config: string;
  readonly quiet: boolean;
  /** Whether the federation keeps running afterwards. */
  readonly keep: boolean;
}

/** `oscar up --demo`: creates the federated service of the quickstart, uploads more than one cluster can process, and shows the jobs. */
export async function demo(
  { config, quiet, keep }: DemoOptions,
  env: NodeJS.ProcessEnv,
  stop: AbortSignal,
): Promise<void> {
  const session = new Session({ config, quiet }, env);
  const { terminal } = session;
  await logIn(session);
  const cluster = await session.cluster();
  const example = await chooseExample(cluster, env);
  terminal.note(`\n# ${example.remark}`);
  await applyFile(example.file, session);

  const stems = pictureNames();
  using pictures = writePictures(stems);
  terminal.note(`\n# ${PICTURES} pictures into ${example.service}/in, more than ${cluster.id} can process at once`);
  const progress = new DemoProgress(PICTURES, Date.now());
  const began = performance.now();
  // The jobs show that the pictures have arrived.
  const silent = new Session({ config, quiet: true }, env).terminal;
  await Promise.all([
    uploadAll(pictures.files, example, cluster, silent),
    watch(progress, stems, { service: example.service, cluster, terminal, stop }),
  ]);
  if (stop.aborted) return;
  terminal.print(`\n${formatTable(toRows(progress.jobs), COLUMNS)}\n`);
  await expectResults(stems, example, session);
  const took = formatDuration(performance.now() - began);
  terminal.print(
    `All ${PICTURES} pictures are grey after ${took}. The results are in ${RESULTS}:${example.service}/out.`,
  );
  if (keep)
    terminal.note(
      `Run \`npx oscar explain ${example.service}\` in another terminal to see why each job ran where it ran.`,
    );
}

async function logIn(session: Session): Promise<void> {
  const clusters = [...session.config.clusters];
  const issuer = clusters[0]?.[1].oidc_issuer ?? '';
  const client = await IssuerClient.discover(issuer, clusters[0]?.[1].oidc_client_id ?? '');
  const tokens = await client.withPassword(USER, new Secret(USER));
  const login = { issuer, clientId: client.clientId, user: USER };
  await session.logins.put(
    issuer,
    login,
    tokens,
    clusters.map(([id]) => id),
  );
  session.terminal.note(`# logged in as ${USER}`);
}

/** Unique names, because an earlier demo may have left pictures. */
function pictureNames(): string[] {
  const run = Math.floor(Date.now() / 1000).toString(36);
  return Array.from({ length: PICTURES }, (_, index) => `picture-${run}-${String(index + 1).padStart(2, '0')}`);
}

/** Writes the pictures to files, which are deleted when the result is disposed of. */
function writePictures(stems: readonly string[]): Disposable & { readonly files: readonly string[] } {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-demo-'));
  const files = stems.map((stem) => join(directory, `${stem}.ppm`));
  for (const [index, file] of files.entries()) writeFileSync(file, picture(index + 1));
  return { files, [Symbol.dispose]: () => rmSync(directory, { recursive: true, force: true }) };
}

/** Uploads all pictures at once, so that most jobs wait while the first ones run. */
async function uploadAll(
  files: readonly string[],
  { service }: DemoExample,
  cluster: ClusterClient,
  terminal: Terminal,
) {
  const store = clusterStore(cluster);
  const put = (file: string) => uploadFile(file, { bucket: service, key: `in/${basename(file)}` }, store, terminal);
  await Promise.all(files.map(put));
}

interface WatchOptions {
  readonly service: string;
  readonly cluster: ClusterClient;
  readonly terminal: Terminal;
  readonly stop: AbortSignal;
}

async function watch(progress: DemoProgress, stems: readonly string[], options: WatchOptions): Promise<void> {
  const { service, cluster, terminal, stop } = options;
  const keys = new Set(stems.map((stem) => `in/${stem}.ppm`));
  while (!progress.isOver && !stop.aborted) {
    const answer = await cluster.call('GET', `/system/jobs/${service}`);
    const jobs = (answer.json() as { jobs: RemoteJob[] }).jobs.filter(({ object }) => keys.has(object?.key ?? ''));
    for (const line of progress.update(jobs.toReversed(), Date.now())) terminal.print(line);
    terminal.status(progress.line);
    await pause(POLL_MS, undefined, { signal: stop }).catch(() => undefined);
  }
  terminal.status('');
}

interface Row {
  readonly place: string;
  readonly jobs: readonly RemoteJob[];
}

const COLUMNS: readonly Column<Row>[] = [
  { title: 'CLUSTER', of: ({ place }) => place },
  { title: 'PICTURES', of: ({ jobs }) => String(jobs.length) },
  { title: 'SCRIPTS TOOK', of: ({ jobs }) => formatDuration(jobs.reduce((sum, job) => sum + scriptMs(job), 0)) },
];

const toRows = (jobs: readonly RemoteJob[]): Row[] =>
  [...Map.groupBy(jobs, ({ attempts }) => attempts.at(-1)?.place ?? '-')]
    .map(([place, there]) => ({ place, jobs: there }))
    .toSorted((a, b) => (a.place < b.place ? -1 : 1));

const scriptMs = ({ started_at, finished_at }: RemoteJob) =>
  started_at && finished_at ? Date.parse(finished_at) - Date.parse(started_at) : 0;

async function expectResults(
  stems: readonly string[],
  { service, resultName: resultOf }: DemoExample,
  session: Session,
) {
  const store = await providerStore(session.config.provider(RESULTS));
  const found = await store.objects({ provider: RESULTS, bucket: service, key: 'out/' });
  const there = new Set(found.map(({ object_name }) => object_name));
  const missing = stems.map((stem) => `out/${resultOf(stem)}`).filter((key) => !there.has(key));
  if (missing.length === 0) return;
  const said = `${missing.length} of ${stems.length} results are missing, such as ${service}/${missing[0]}`;
  throw new ClientError(
    'job-failed',
    `${said}: start \`oscar up\` again and run \`oscar explain ${service}\` to see why`,
  );
}

/** Follows the jobs of a demo and describes what has changed. */
export class DemoProgress {
  readonly #began: number;
  readonly #count: number;
  readonly #jobs = new Map<string, RemoteJob>();
  /** The last line that was printed for each job. */
  readonly #printed = new Map<string, string>();

  constructor(count: number, began: number) {
    this.#count = count;
    this.#began = began;
  }

  /** A line for each picture whose job has started or ended since the last call. */
  update(jobs: readonly RemoteJob[], now: number): string[] {
    const lines: string[] = [];
    for (const job of jobs) {
      this.#jobs.set(job.id, job);
      const state = describeJob(job);
      if (state === undefined || this.#printed.get(job.id) === state) continue;
      this.#printed.set(job.id, state);
      lines.push(`${formatDuration(now - this.#began).padStart(6)}  ${pictureNumber(job)} ${state}`);
    }
    return lines;
  }

  get isOver(): boolean {
    return this.#jobs.size >= this.#count && this.jobs.every(({ state }) => FINAL_STATES.has(state));
  }

  get jobs(): readonly RemoteJob[] {
    return [...this.#jobs.values()];
  }

  /** The pictures that each cluster processes now, in one line. */
  get line(): string {
    const running = this.jobs.filter((job) => !FINAL_STATES.has(job.state) && lastCluster(job) !== undefined);
    const places = Map.groupBy(running, (job) => lastCluster(job) ?? '');
    const here = [...places].map(([place, jobs]) => `${place}: ${jobs.map(pictureNumber).join(' ')}`);
    const done = this.jobs.filter(({ state }) => FINAL_STATES.has(state)).length;
    return [...here.toSorted(), `${done} of ${this.#count} done`].join(' | ');
  }
}

function describeJob(job: RemoteJob): string | undefined {
  const place = lastCluster(job);
  if (job.state === 'succeeded') return `is grey, processed on ${place}`;
  if (FINAL_STATES.has(job.state)) return `${job.state} on ${place}: ${job.message}`;
  const { policy, chosen } = job.decisions.at(-1) ?? {};
  if (place !== undefined) return chosen === undefined ? `runs on ${place}` : `runs on ${place}, chosen by "${policy}"`;
  return policy !== undefined && chosen === undefined ? 'waits: all clusters are full' : undefined;
}

/** `07` of `in/picture-x1-07.ppm`. */
const pictureNumber = ({ object }: RemoteJob) => /(\d+)\.ppm$/.exec(object?.key ?? '')?.[1] ?? '?';

/** Larger: uploads take longer. Smaller: the script ends before a user sees it run. */
const WIDTH = 480;
const HEIGHT = 360;

/** Coloured stripes, different in each picture, in plain PPM, which a shell script can read. */
function picture(index: number): string {
  const lines: string[] = ['P3', `# picture ${index} of the demo`, `${WIDTH} ${HEIGHT}`, '255'];
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

/** An example service that turns pictures grey. */
interface DemoExample {
  readonly file: string;
  readonly service: string;
  /** The name of the result for a picture. */
  readonly resultName: (stem: string) => string;
  readonly remark: string;
}

const examplePath = (name: string) => fileURLToPath(new URL(`../../../../examples/${name}`, import.meta.url));

const QUICKSTART: DemoExample = {
  file: examplePath('quickstart.yaml'),
  service: 'grayifyr0',
  resultName: (stem) => `${stem}.ppm`,
  remark: 'examples/quickstart.yaml: ImageMagick turns pictures grey',
};

const SHELL: DemoExample = {
  file: examplePath('grey.yaml'),
  service: 'grey0',
  resultName: (stem) => `${stem}.pgm`,
  remark: 'examples/grey.yaml: a shell script turns pictures grey',
};

/**
 * The quickstart if its script finds ImageMagick on this machine, otherwise an example that only needs a shell. With
 * containers the quickstart would work too, but pulling its image takes too long for a demo.
 */
async function chooseExample(cluster: ClusterClient, env: NodeJS.ProcessEnv): Promise<DemoExample> {
  const { runtime } = (await cluster.call('GET', '/system/info')).json() as { runtime?: string };
  return runtime?.startsWith('process') && hasImageMagick(env) ? QUICKSTART : SHELL;
}

/** Other packages have programs of these names too, so check the version text. */
function hasImageMagick(env: NodeJS.ProcessEnv): boolean {
  return ['magick', 'convert'].some((name) => {
    const { stdout } = spawnSync(name, ['-version'], { env, encoding: 'utf8', timeout: 5_000 });
    return stdout?.includes('ImageMagick') ?? false;
  });
}
