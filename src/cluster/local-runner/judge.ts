import { constants } from 'node:os';
import type { Demand } from '../job-record.ts';
import type { Ended, EndReason } from '../runner.ts';
import type { RunEnd } from './launcher.ts';

type Failure = Pick<Ended, 'message' | 'exitCode'> & { readonly reason: EndReason };

/** Why a script that ended by itself has failed; undefined when it has not. Its exit code decides. */
export function judge({ cause, exitCode, signal }: RunEnd, demand: Demand): Failure | undefined {
  const by = signal ? ` (${signal})` : '';
  switch (cause) {
    case 'out-of-memory':
      return { reason: 'OutOfMemory', message: `the script used more memory than its ${inMebibytes(demand.memory)}` };
    case 'disk-full':
      return { reason: 'DiskFull', message: 'the script wrote more to the disk than it may' };
    case 'signal':
      return { reason: 'Lost', message: `somebody ended the script${by}, and it left no exit code` };
    case 'lost':
      return { reason: 'Lost', message: 'the script was started, runs no more, and left no exit code' };
    case undefined:
  }
  if (exitCode === undefined) return { reason: 'Lost', message: 'the script ended without an exit code' };
  if (exitCode === 0) return undefined;
  const message = `the script ended with exit code ${exitCode}${by || signalIn(exitCode)}`;
  return { reason: 'ScriptFailed', message, exitCode };
}

const inMebibytes = (bytes: number) => `${Math.round(bytes / 2 ** 20)} MiB`;

/** A shell tells the signal that ended a program as 128 and its number. */
function signalIn(exitCode: number): string {
  const name = Object.entries(constants.signals).find(([, number]) => number === exitCode - 128)?.[0];
  return name ? ` (${name})` : '';
}
