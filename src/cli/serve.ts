import { readFileSync } from 'node:fs';
import { flushCompileCache } from 'node:module';
import { readConfig } from '../config/index.ts';
import { VERSION } from '../lib/product-version.ts';
import { createLog, startManager } from '../manager/index.ts';
import { waitForStopSignal } from './up/stop-signals.ts';

/** `oscar serve`: runs one manager, configured by its environment, until a stop signal. */
export async function serve(env: NodeJS.ProcessEnv, options: { readonly newIdentity?: boolean } = {}): Promise<void> {
  const config = readConfig(env, (name) => readFileSync(name, 'utf8'));
  const log = createLog(config);
  const manager = await startManager(config, log, options);

  // Node writes the cache at exit, which a killed manager never reaches.
  flushCompileCache();
  log.info({ version: VERSION, cluster: config.clusterId, address: manager.address }, 'manager is up');
  if (manager.newPassword !== undefined) {
    process.stderr.write(
      `\nThis is the first start. The administrator of this cluster:\n\n` +
        `    user      ${config.username}\n    password  ${manager.newPassword}\n\n` +
        `The password is shown only once and stored encrypted in ${config.dataDir}. Set OSCAR_PASSWORD to choose another.\n\n`,
    );
  }

  // A second signal exits at once. Everything that was acknowledged is on disk.
  const signal = await waitForStopSignal(() => process.exit(130));
  log.info({ signal }, 'stopping');
  await manager.stop();
  log.info('stopped');
}
