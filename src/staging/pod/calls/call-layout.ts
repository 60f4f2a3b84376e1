import { join } from 'node:path';
import { SCRIPT_VIEW, sharedParts } from '../layout.ts';

/** The paths in the container of a script that is run for each call: the same as in `layout.ts`. */
export const CALL_VIEW = {
  input: SCRIPT_VIEW.input,
  output: SCRIPT_VIEW.output,
  marks: SCRIPT_VIEW.marks,
  said: SCRIPT_VIEW.said,
  /** The script of the current call, and the program that starts it. */
  config: '/oscar/config',
} as const;

/** The parts of the shared directory that are mounted in the script's container. */
export const CALL_MOUNTS = [
  { subPath: 'input', mountPath: CALL_VIEW.input, readOnly: false },
  { subPath: 'output', mountPath: CALL_VIEW.output, readOnly: false },
  { subPath: 'marks', mountPath: CALL_VIEW.marks, readOnly: false },
  { subPath: 'said', mountPath: CALL_VIEW.said, readOnly: true },
  { subPath: 'config', mountPath: CALL_VIEW.config, readOnly: true },
] as const;

/** The paths of the program that answers calls. Tests use others. */
export interface CallLayout {
  /** The directory that both containers share. */
  readonly shared: string;
  /** The file with the token that the manager must have. */
  readonly token: string;
}

export const CALL_LAYOUT: CallLayout = { shared: '/oscar/shared', token: '/oscar/token/token' };

/** The parts of the shared directory. `call-wrapper.ts` describes which side writes which file. */
export function callParts(shared: string) {
  const parts = sharedParts(shared);
  const config = join(shared, 'config');
  return {
    ...parts,
    config,
    script: join(config, 'script.sh'),
    begin: join(config, 'begin'),
    /** Exists while a call is being answered. */
    call: join(parts.said, 'call'),
    /** Asks the script of this call to end. */
    halt: join(parts.said, 'stop'),
    idle: join(parts.marks, 'idle'),
    died: join(parts.marks, 'died'),
    printed: join(parts.marks, 'log'),
    /** Has the files that a pod for one attempt gets from its Secret. */
    orders: join(parts.own, 'orders'),
    /** The output of the script, each line with its time. */
    log: join(parts.own, 'log'),
  };
}

export type CallParts = ReturnType<typeof callParts>;
