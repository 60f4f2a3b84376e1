import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, constants, openSync } from 'node:fs';
import { WRAPPER } from './wrapper.ts';

/** What it takes to start a script. It may go to another process, so it is nothing but words and numbers. */
export interface StartOrder {
  readonly script: string;
  /** The directory for the marks of its wrapper, and the number of the launch. */
  readonly marks: string;
  readonly number: number;
  /** Where it begins. */
  readonly home: string;
  /** A named pipe that takes what it prints. */
  readonly pipe: string;
  readonly environment: Readonly<Record<string, string>>;
  /** A user that nobody else has. */
  readonly uid?: number;
  /** 0: as many as will. */
  readonly maxProcesses: number;
}

/** Starts the wrapper of a script. `nice` is the program of that name, where one is needed to make the script less urgent. */
export function spawnWrapper(order: StartOrder, nice: string): ChildProcess {
  const { script, marks, number, home, pipe, environment, uid, maxProcesses } = order;
  using files = new DisposableStack();
  const open = (flags: number) => files.adopt(openSync(pipe, flags), closeSync);
  // Not an end of it each: whoever has both never hears that the other end is gone, and does not wait for it either.
  const printed = open(constants.O_RDWR);
  const kept = open(constants.O_RDONLY);
  const alone = uid === undefined ? '' : 'alone';
  const values = [marks, String(number), script, nice, String(maxProcesses), alone];
  return spawn('/bin/sh', ['-c', WRAPPER, 'oscar', ...values], {
    detached: true,
    cwd: home,
    env: environment,
    stdio: ['ignore', printed, 'ignore', kept],
    ...(uid !== undefined && { uid, gid: uid }),
  });
}
