import { join } from 'node:path';
import { SCRIPT_VIEW, sharedParts } from '../layout.ts';

/** Where things are for a script that is run call after call: as for any other, see `layout.ts`. */
export const CALL_VIEW = {
  input: SCRIPT_VIEW.input,
  output: SCRIPT_VIEW.output,
  marks: SCRIPT_VIEW.marks,
  said: SCRIPT_VIEW.said,
  /** Its script, and what begins it, of the call that is being answered. */
  config: '/oscar/config',
} as const;

/** What its container has of the shared directory. */
export const CALL_MOUNTS = [
  { subPath: 'input', mountPath: CALL_VIEW.input, readOnly: false },
  { subPath: 'output', mountPath: CALL_VIEW.output, readOnly: false },
  { subPath: 'marks', mountPath: CALL_VIEW.marks, readOnly: false },
  { subPath: 'said', mountPath: CALL_VIEW.said, readOnly: true },
  { subPath: 'config', mountPath: CALL_VIEW.config, readOnly: true },
] as const;

/** Where the program that answers calls finds things. Tests have them elsewhere. */
export interface CallLayout {
  /** The directory that both containers share. */
  readonly shared: string;
  /** The file with the token that whoever calls must have. */
  readonly token: string;
}

export const CALL_LAYOUT: CallLayout = { shared: '/oscar/shared', token: '/oscar/token/token' };

/** The parts of the shared directory, see `call-wrapper.ts` for who writes which file. */
export function callParts(shared: string) {
  const parts = sharedParts(shared);
  const config = join(shared, 'config');
  return {
    ...parts,
    config,
    script: join(config, 'script.sh'),
    begin: join(config, 'begin'),
    /** There while a call is being answered. */
    call: join(parts.said, 'call'),
    /** The script of this call is to go. */
    halt: join(parts.said, 'stop'),
    idle: join(parts.marks, 'idle'),
    died: join(parts.marks, 'died'),
    printed: join(parts.marks, 'log'),
    /** What a Secret is in a pod that runs once. */
    orders: join(parts.own, 'orders'),
    /** What was printed, each line with its time. */
    log: join(parts.own, 'log'),
  };
}

export type CallParts = ReturnType<typeof callParts>;
