import { join } from 'node:path';

/** Where the programs in a pod find things. Tests have them elsewhere. */
export interface PodLayout {
  /** What a Secret becomes: `orders.json`, `stores.json` and maybe `input`. Only our containers have it. */
  readonly orders: string;
  /** The directory that all containers share. Only our containers have the whole of it. */
  readonly shared: string;
  /** What is written there, Kubernetes shows as the last words of the container. */
  readonly termination: string;
}

export const POD_LAYOUT: PodLayout = {
  orders: '/oscar/orders',
  shared: '/oscar/shared',
  termination: '/dev/termination-log',
};

/** The same in a pod that waits for its orders. */
export interface WarmLayout extends PodLayout {
  /** What the script's container has as its configuration; only our container can change it. */
  readonly given: string;
}

export const WARM_LAYOUT: WarmLayout = { ...POD_LAYOUT, given: '/oscar/given' };

/** Keys of the attempt's Secret, and names of the files that they become. */
export const ORDER_FILES = {
  orders: 'orders.json',
  /** Written again when keys are renewed. */
  stores: 'stores.json',
  /** Bytes that are the input; of stage-in alone. */
  input: 'input',
} as const;

/** What a pod that waited is given for its script, beside its orders. */
export const GIVEN_FILES = {
  script: 'script.sh',
  /** Begins the script in its environment. */
  begin: 'begin.sh',
} as const;

/** Where our container in a pod that waits tells the kubelet how far it is. */
export const WARM_PATHS = { up: '/up', begun: '/begun' } as const;

/** Where things are for the script, as in every container of ours (docs/go-manager.md#events-and-scripts). */
export const SCRIPT_VIEW = {
  script: '/oscar/config/script.sh',
  begin: '/oscar/config/begin.sh',
  input: '/oscar/input',
  output: '/oscar/output',
  /** Where its wrapper leaves its marks. */
  marks: '/oscar/marks',
  /** Where it is told that everything is done. */
  said: '/oscar/said',
} as const;

/**
 * What the script's container has of the shared directory: these parts, each mounted for itself, never the whole. A mount
 * cannot be renamed away and replaced by a link from within, and what is ours there (`own`) is not to be seen.
 */
export const SCRIPT_MOUNTS = [
  { subPath: 'input', mountPath: SCRIPT_VIEW.input, readOnly: false },
  { subPath: 'output', mountPath: SCRIPT_VIEW.output, readOnly: false },
  { subPath: 'marks', mountPath: SCRIPT_VIEW.marks, readOnly: false },
  { subPath: 'said', mountPath: SCRIPT_VIEW.said, readOnly: true },
] as const;

/** The parts of the shared directory, as our containers see them. */
export function sharedParts(shared: string) {
  const own = join(shared, 'own');
  const marks = join(shared, 'marks');
  return {
    input: join(shared, 'input'),
    output: join(shared, 'output'),
    marks,
    /** When the script began: the time of the file. */
    start: join(marks, 'start'),
    /** Its exit code and the end of a line. */
    exit: join(marks, 'exit'),
    /** Somebody wants it to go. */
    stop: join(marks, 'stop'),
    /** Its container ends now: everything is done. */
    left: join(marks, 'left'),
    /** A pipe at which the wrapper of a pod that waits is woken. */
    wake: join(marks, 'wake'),
    said: join(shared, 'said'),
    done: join(shared, 'said', 'done'),
    /** There since the script of a pod that waited may begin. */
    go: join(shared, 'said', 'go'),
    /** What only we may see and change. */
    own,
    /** There since the script may begin. */
    ready: join(own, 'ready'),
    /** What was uploaded, or may have been, a line each. */
    uploaded: join(own, 'uploaded'),
    answer: join(own, 'answer'),
    /** The result, for a program that is started again. */
    result: join(own, 'result.json'),
  };
}

export type SharedParts = ReturnType<typeof sharedParts>;
