import { readdirSync, readFileSync } from 'node:fs';

/** Does a process of this machine, in a container or not, have this word among its arguments? */
export function runsAnywhere(word: string): boolean {
  return readdirSync('/proc').some((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, 'latin1').split('\0').includes(word);
    } catch {
      return false;
    }
  });
}
