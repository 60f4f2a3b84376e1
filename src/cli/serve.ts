import { readFileSync } from 'node:fs';
import { flushCompileCache } from 'node:module';
import { readConfig } from '../config/index.ts';
import { VERSION } from '../lib/product-version.ts';
import { createLog, startManager } from '../manager/index.ts';
import { toldToStop } from './up/up.ts';

/** `oscar serve`: one manager from its environment, until it is told to stop. */
export async function serve(env: NodeJS.ProcessEnv, options: { readonly newIdentity?: boolean } = {}): Promise<void> {
  const config = readConfig(env, (name) => readFileSync(name, 'utf8'));
  const log = createLog(config);
  const manager = await startManager(config, log, options);

  // Written at exit otherwise, which a manager that is killed never reaches.
  flushCompileCache();
  log.info({ version: VERSION, cluster: config.clusterId, address: manager.address }, 'manager is up');
  if (manager.newPassword !== undefined) {
    process.stderr.write(
      `\nThis is the first start. The administrator of this cluster is\n\n` +
        `    user      ${config.username}\n    password  ${manager.newPassword}\n\n` +
        `It is shown this once and kept, encrypted, in ${config.dataDir}. Set OSCAR_PASSWORD to choose another.\n\n`,
    );
  }

  // Nothing that was acknowledged is lost when the operator cuts the stop short.
  const signal = await toldToStop(() => process.exit(130));
  log.info({ signal }, 'stopping');
  await manager.stop();
  log.info('stopped');
}
