import { flushCompileCache } from 'node:module';
import { join, resolve } from 'node:path';
import { type ClusterEntry, configText } from '../client/config-file.ts';
import { ClientError } from '../client/errors.ts';
import { writePrivateFile } from '../client/private-file.ts';
import type { Terminal } from '../client/terminal.ts';
import { banner } from './banner.ts';
import { startDemoIssuer } from './issuer/issuer.ts';
import { CLIENT_ID } from './issuer/provider.ts';
import { ManagerProcess } from './manager-process.ts';
import { clearPlace, takePlace } from './own-place.ts';
import { MOST_CLUSTERS, makePlan, type Plan, type Wanted } from './plan.ts';
import { endpointOf, settingsFor } from './settings.ts';
import { toldToStop } from './stop-signals.ts';

export interface UpOptions extends Wanted {
  readonly data: string;
  readonly fresh: boolean;
  /** What is done once it is up, with the configuration of its clusters. */
  readonly show?: (config: string, stop: AbortSignal) => Promise<void>;
  /** Does it go on after that? */
  readonly keep: boolean;
}

/** `oscar up`: a federation on this machine, until it is told to stop. */
export async function up(options: UpOptions, terminal: Terminal, env: NodeJS.ProcessEnv): Promise<void> {
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
  managers.push(
    ...plan.clusters.map(
      (cluster) =>
        new ManagerProcess({
          id: cluster.id,
          endpoint: endpointOf(cluster),
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

function configOf({ clusters: [...clusters] }: Plan, issuer: string): string {
  const entries = clusters.map((cluster): [string, ClusterEntry] => [
    cluster.id,
    {
      endpoint: endpointOf(cluster),
      auth_user: 'oscar',
      auth_password: cluster.password,
      oidc_issuer: issuer,
      oidc_client_id: CLIENT_ID,
      // There is no certificate on loopback.
      ssl_verify: false,
    },
  ]);
  return configText(new Map(entries), clusters[0]?.id ?? '');
}
