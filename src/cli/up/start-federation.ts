import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { flushCompileCache } from 'node:module';
import { join, relative, resolve } from 'node:path';
import { type ClusterEntry, configText } from '../client/config-file.ts';
import { ClientError } from '../client/errors.ts';
import { writePrivateFile } from '../client/private-file.ts';
import { type Column, formatTable } from '../client/table.ts';
import type { Terminal } from '../client/terminal.ts';
import { startDemoIssuer } from './issuer/demo-issuer.ts';
import { PEOPLE } from './issuer/people.ts';
import { CLIENT_ID } from './issuer/provider.ts';
import { ManagerProcess, readIsolationProblem } from './manager-process.ts';
import {
  clusterIds,
  MOST_CLUSTERS,
  makePlan,
  type Plan,
  type PlannedCluster,
  type PlanOptions,
  planFile,
} from './plan.ts';
import { managerEndpoint, settingsFor, sharedStore, storeEndpoint } from './settings.ts';
import { startSharedStore } from './shared-store.ts';
import { waitForStopSignal } from './stop-signals.ts';

export interface UpOptions extends PlanOptions {
  readonly data: string;
  readonly fresh: boolean;
  /** The demo, called with the configuration file when the federation is up. */
  readonly show?: (config: string, stop: AbortSignal) => Promise<void>;
  /** Whether the federation keeps running after the demo. */
  readonly keep: boolean;
}

/** `oscar up`: runs a federation on this machine until a stop signal. */
export async function startFederation(options: UpOptions, terminal: Terminal, env: NodeJS.ProcessEnv): Promise<void> {
  const began = performance.now();
  if (options.clusters < 1 || options.clusters > MOST_CLUSTERS) {
    throw new ClientError('usage', `--clusters must be 1 to ${MOST_CLUSTERS}`);
  }
  const managers: ManagerProcess[] = [];
  const stopped = waitForStopSignal(() => {
    for (const each of managers) each.kill();
  });
  const directory = resolve(options.data);
  await using started = new AsyncDisposableStack();
  started.use(lockDirectory(directory));
  if (options.fresh) clearDirectory(directory);
  const { plan, moved } = await makePlan(directory, options);
  for (const line of moved) terminal.note(line);

  const issuer = await startDemoIssuer(plan.issuerPort, join(directory, 'issuer.json'));
  started.defer(() => issuer.stop());
  const shared = await startSharedStore(plan, join(directory, 'shared'), (line) => terminal.note(line));
  started.defer(() => shared.stop());
  managers.push(
    ...plan.clusters.map(
      (cluster) =>
        new ManagerProcess({
          id: cluster.id,
          endpoint: managerEndpoint(cluster),
          env: settingsFor(cluster, plan, { directory, issuer: issuer.url, env }),
          logFile: join(directory, 'logs', `${cluster.id}.log`),
          notify: (line) => terminal.note(line),
        }),
    ),
  );
  started.defer(async () => void (await Promise.all(managers.map((each) => each.stop()))));
  for (const manager of managers) manager.start();
  const ready = Promise.all(managers.map((each) => each.ready()));
  ready.catch(() => undefined);
  if (await Promise.race([ready.then(() => false), stopped.then(() => true)])) return;

  const config = join(directory, 'config.yaml');
  writePrivateFile(config, toConfigText(plan, issuer.url));
  flushCompileCache();
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  terminal.print(banner(plan, { issuer: issuer.url, directory, seconds, keepsRunning: !options.show || options.keep }));
  const [first] = plan.clusters;
  const problem = first && (await readIsolationProblem(managerEndpoint(first), first.password));
  if (problem !== undefined) terminal.print(warnUnisolated(problem));
  await waitForEnd(options, config, stopped);
  terminal.note('stopping …');
}

async function waitForEnd({ show, keep }: UpOptions, config: string, stopped: Promise<unknown>): Promise<void> {
  if (!show) return void (await stopped);
  const stop = new AbortController();
  const shown = show(config, stop.signal);
  // Errors that the stop itself causes are not reported.
  shown.catch(() => undefined);
  const cut = stopped.then(() => stop.abort());
  await Promise.race([shown, cut]);
  if (stop.signal.aborted) throw new ClientError('interrupted', 'stopped before the demo was finished');
  if (keep) await stopped;
}

function toConfigText(plan: Plan, issuer: string): string {
  const { clusters } = plan;
  const entries = clusters.map((cluster): [string, ClusterEntry] => [
    cluster.id,
    {
      endpoint: managerEndpoint(cluster),
      auth_user: 'oscar',
      auth_password: cluster.password,
      oidc_issuer: issuer,
      oidc_client_id: CLIENT_ID,
      // Loopback is plain HTTP.
      ssl_verify: false,
    },
  ]);
  return configText(new Map(entries), clusters[0]?.id ?? '', { 'minio.shared': sharedStore(plan) });
}

const COLUMNS: readonly Column<PlannedCluster>[] = [
  { title: 'CLUSTER', of: ({ id }) => id },
  { title: 'MANAGER', of: managerEndpoint },
  { title: 'OBJECT STORE', of: storeEndpoint },
  { title: 'CPU', of: ({ cpu }) => cpu },
  { title: 'MEMORY', of: ({ memory }) => memory },
];

/** The quickstart has a coordinator and two members. */
const QUICKSTART = 3;
const TRY = ['apply examples/quickstart.yaml', 'describe grayifyr0'];

/** The text that `oscar up` prints when the federation is up. */
function banner(
  plan: Plan,
  {
    issuer,
    directory,
    seconds,
    keepsRunning,
  }: { issuer: string; directory: string; seconds: string; keepsRunning: boolean },
): string {
  const { clusters } = plan;
  const place = `./${relative('', directory)}`;
  const people = PEOPLE.map(({ login }) => `${login} (password ${login})`).join(', ');
  const config = place === './.oscar' ? '' : `OSCAR_CONFIG_FILE=${place}/config.yaml `;
  const commands = ['login alice --password alice', ...(clusters.length < QUICKSTART ? ['status', 'get'] : TRY)];
  const [first] = clusters;
  const page = first ? `\nOpen ${managerEndpoint(first)}/ui/ in a browser and sign in as ${PEOPLE[0]?.login}.\n` : '';
  const facts = `${page}
${formatTable(clusters, COLUMNS)}

Users         ${people}, at the issuer ${issuer}
Administrator oscar, with the passwords in ${place}/config.yaml (also a configuration for oscar-cli)
Shared store  ${sharedStore(plan).endpoint}, which all clusters know as minio.shared
Data          ${place}, logs in ${place}/logs

Up after ${seconds} s.`;
  return keepsRunning ? `${facts} ${suggestions(commands.map((command) => `  ${config}npx oscar ${command}`))}` : facts;
}

const warnUnisolated = (reason: string) => `
************************************************************************************************
  SCRIPTS ARE NOT ISOLATED. They run as plain processes of this machine, without namespaces:
  a script of one user can reach the files, the processes and the secrets of another.
  Run only what you trust, or install Docker.
  Because: ${reason}
************************************************************************************************
`;

const suggestions = (commands: readonly string[]) => `Try, in another terminal:

${commands.join('\n')}

Ctrl-C stops everything. \`oscar up\` starts again with the same data, \`oscar up --fresh\` without it.
`;

/** Ensures that only one `oscar up` uses the directory. */
export function lockDirectory(directory: string): Disposable {
  mkdirSync(directory, { recursive: true });
  const file = join(directory, 'up.pid');
  for (;;) {
    try {
      writeFileSync(file, String(process.pid), { flag: 'wx', mode: 0o600 });
      return { [Symbol.dispose]: () => rmSync(file, { force: true }) };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
      const holder = findHolder(file);
      if (holder !== undefined) {
        throw new ClientError(
          'conflict',
          `\`oscar up\` already uses ${directory} (process ${holder}): stop it with Ctrl-C, or choose another directory with --data. If that process is something else, delete ${file}`,
        );
      }
      rmSync(file, { force: true });
    }
  }
}

/** The running `oscar up` that has locked the directory, if any. */
function findHolder(file: string): number | undefined {
  const pid = existsSync(file) ? Number(readFileSync(file, 'utf8')) : 0;
  if (!Number.isInteger(pid) || pid <= 0) return undefined;
  try {
    process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM' ? pid : undefined;
  }
  const commandLine = `/proc/${pid}/cmdline`;
  // The process id may have been reused.
  return existsSync(commandLine) && !readFileSync(commandLine, 'utf8').includes('\0up') ? undefined : pid;
}

/** Deletes what an earlier `oscar up` has created, and nothing else. */
export function clearDirectory(directory: string): void {
  if (!existsSync(planFile(directory))) return;
  const files = ['issuer.json', 'config.yaml', 'oscar-logins.json', 'logs', 'shared'];
  const all = [...clusterIds(MOST_CLUSTERS), ...files].map((name) => join(directory, name));
  for (const path of [...all, planFile(directory)]) rmSync(path, { recursive: true, force: true });
}
