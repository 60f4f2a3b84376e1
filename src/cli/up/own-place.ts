import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ClientError } from '../client/errors.ts';
import { clusterIds, MOST_CLUSTERS, planFile } from './plan.ts';

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
  const files = ['issuer.json', 'config.yaml', 'oscar-logins.json', 'logs'];
  const all = [...clusterIds(MOST_CLUSTERS), ...files].map((name) => join(directory, name));
  for (const path of [...all, planFile(directory)]) rmSync(path, { recursive: true, force: true });
}
