import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { flushCompileCache } from 'node:module';
import { join, relative, resolve } from 'node:path';
import { type ClusterEntry, configText } from '../client/config-file.ts';
import { ClientError } from '../client/errors.ts';
import { writePrivateFile } from '../client/private-file.ts';
import { type Column, tableOf } from '../client/table.ts';
import type { Terminal } from '../client/terminal.ts';
import { startDemoIssuer } from './issuer/issuer.ts';
import { PEOPLE } from './issuer/people.ts';
import { CLIENT_ID } from './issuer/provider.ts';
import { ManagerProcess } from './manager-process.ts';
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

export interface UpOptions extends PlanOptions {
  readonly data: string;
  readonly fresh: boolean;
  /** What is done once it is up, with the configuration of its clusters. */
  readonly show?: (config: string, stop: AbortSignal) => Promise<void>;
  /** Does it go on after that? */
  readonly keep: boolean;
}

/** `oscar up`: a federation on this machine, until it is told to stop. */
export async function startFederation(options: UpOptions, terminal: Terminal, env: NodeJS.ProcessEnv): Promise<void> {
  const began = performance.now();
  if (options.clusters < 1 || options.clusters > MOST_CLUSTERS) {
    throw new ClientError('usage', `--clusters must be 1 to ${MOST_CLUSTERS}`);
  }
  const managers: ManagerProcess[] = [];
  const told = toldToStop(() => {
    for (const each of managers) each.kill();
  });
  const directory = resolve(options.data);
  await using started = new AsyncDisposableStack();
  started.use(takePlace(directory));
  if (options.fresh) clearPlace(directory);
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
          tell: (line) => terminal.note(line),
        }),
    ),
  );
  started.defer(async () => void (await Promise.all(managers.map((each) => each.stop()))));
  for (const manager of managers) manager.start();
  const ready = Promise.all(managers.map((each) => each.ready()));
  ready.catch(() => undefined);
  if (await Promise.race([ready.then(() => false), told.then(() => true)])) return;

  const config = join(directory, 'config.yaml');
  writePrivateFile(config, configOf(plan, issuer.url));
  flushCompileCache();
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  terminal.print(banner(plan, { issuer: issuer.url, directory, seconds, stays: !options.show || options.keep }));
  await untilOver(options, config, told);
  terminal.note('stopping …');
}

async function untilOver({ show, keep }: UpOptions, config: string, told: Promise<unknown>): Promise<void> {
  if (!show) return void (await told);
  const stop = new AbortController();
  const shown = show(config, stop.signal);
  // What fails because everything is being stopped is no failure.
  shown.catch(() => undefined);
  const cut = told.then(() => stop.abort());
  await Promise.race([shown, cut]);
  if (stop.signal.aborted) throw new ClientError('interrupted', 'stopped before all results were there');
  if (keep) await told;
}

function configOf(plan: Plan, issuer: string): string {
  const { clusters } = plan;
  const entries = clusters.map((cluster): [string, ClusterEntry] => [
    cluster.id,
    {
      endpoint: managerEndpoint(cluster),
      auth_user: 'oscar',
      auth_password: cluster.password,
      oidc_issuer: issuer,
      oidc_client_id: CLIENT_ID,
      // There is no certificate on loopback.
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

/** What whoever has started a federation wants to know. */
function banner(
  plan: Plan,
  { issuer, directory, seconds, stays }: { issuer: string; directory: string; seconds: string; stays: boolean },
): string {
  const { clusters } = plan;
  const place = `.//${relative('', directory)}`;
  const people = PEOPLE.map(({ login }) => `${login} (password ${login})`).join(', ');
  const elsewhere = place === './.oscar' ? '' : `OSCAR_CONFIG_FILE=${place}/config.yaml `;
  const commands = ['login alice --password alice', ...(clusters.length < QUICKSTART ? ['status', 'get'] : TRY)];
  const facts = `
${tableOf(clusters, COLUMNS)}

Users         ${people}, at the issuer ${issuer}
Administrator oscar, whose passwords are in ${place}/config.yaml (as oscar-cli reads it, too)
Shared store  ${sharedStore(plan).endpoint}, which all clusters know as minio.shared
Data          ${place}, logs in ${place}/logs

Up after ${seconds} s.`;
  return stays ? `${facts} ${invitation(commands.map((command) => `  ${elsewhere}npx oscar ${command}`))}` : facts;
}

const invitation = (commands: readonly string[]) => `Try, in another terminal:

${commands.join('\n')}

Ctrl-C stops everything; \`oscar up\` goes on with the same data, \`oscar up --fresh\` without.
`;

/** One `oscar up` at a time has a directory. */
export function takePlace(directory: string): Disposable {
  mkdirSync(directory, { recursive: true });
  const file = join(directory, 'up.pid');
  for (;;) {
    try {
      writeFileSync(file, String(process.pid), { flag: 'wx', mode: 0o600 });
      return { [Symbol.dispose]: () => rmSync(file, { force: true }) };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
      const holder = holderOf(file);
      if (holder !== undefined) {
        throw new ClientError(
          'conflict',
          `\`oscar up\` runs on ${directory} already (process ${holder}): stop it with Ctrl-C, or use another directory with --data. If that is no such process, remove ${file}`,
        );
      }
      rmSync(file, { force: true });
    }
  }
}

/** The process that has it; one that was killed has nothing any more. */
function holderOf(file: string): number | undefined {
  const pid = existsSync(file) ? Number(readFileSync(file, 'utf8')) : 0;
  if (!Number.isInteger(pid) || pid <= 0) return undefined;
  try {
    process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM' ? pid : undefined;
  }
  const commandLine = `/proc/${pid}/cmdline`;
  // Its number may be somebody else's by now.
  return existsSync(commandLine) && !readFileSync(commandLine, 'utf8').includes('\0up') ? undefined : pid;
}

/** Removes what an earlier `oscar up` made there, and nothing else. */
export function clearPlace(directory: string): void {
  if (!existsSync(planFile(directory))) return;
  const files = ['issuer.json', 'config.yaml', 'oscar-logins.json', 'logs', 'shared'];
  const all = [...clusterIds(MOST_CLUSTERS), ...files].map((name) => join(directory, name));
  for (const path of [...all, planFile(directory)]) rmSync(path, { recursive: true, force: true });
}

/**
 * npm passes a Ctrl-C on that the terminal has sent already, so that one comes as two. Longer: somebody in a hurry waits.
 * Shorter: `npm start` would be cut off at the first one.
 */
const SAME_MS = 1_000;

/**
 * Resolves at the first signal to stop. Whoever sends another one after that does not want to wait; but SIGHUP only says
 * that the terminal or the parent is gone, which often happens while a stop is under way.
 */
export function toldToStop(urgent: () => void, from: NodeJS.EventEmitter = process): Promise<NodeJS.Signals> {
  const { promise, resolve: settle } = Promise.withResolvers<NodeJS.Signals>();
  let first: number | undefined;
  const heard = (signal: NodeJS.Signals) => {
    first ??= Date.now();
    if (signal !== 'SIGHUP' && Date.now() - first > SAME_MS) urgent();
    settle(signal);
  };
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) from.on(name, heard);
  return promise;
}
