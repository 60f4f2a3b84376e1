import { existsSync, readdirSync, readFileSync } from 'node:fs';

/** Processes whose environment names a job directory below the given one. */
export function processesOf(runs: string): string[] {
  if (!existsSync('/proc/self/environ')) return [];
  return readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/environ`, 'utf8').includes(`TMP_OUTPUT_DIR=${runs}`);
    } catch {
      return false;
    }
  });
}
