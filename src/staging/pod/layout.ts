import { join } from 'node:path';

/** The paths of the programs in a pod. Tests use others. */
export interface PodLayout {
  /** The mounted Secret: `orders.json`, `stores.json` and maybe `input`. Only our containers mount it. */
  readonly orders: string;
  /** The directory that all containers share. Only our containers mount all of it. */
  readonly shared: string;
  /** The termination message of the container for Kubernetes. */
  readonly termination: string;
}

export const POD_LAYOUT: PodLayout = {
  orders: '/oscar/orders',
  shared: '/oscar/shared',
  termination: '/dev/termination-log',
};

/** The paths in a warm pod, which waits for its orders. */
export interface WarmLayout extends PodLayout {
  /** The configuration of the script's container, which only our container can change. */
  readonly given: string;
}

export const WARM_LAYOUT: WarmLayout = { ...POD_LAYOUT, given: '/oscar/given' };

/** The keys of the attempt's Secret, and the names of the mounted files. */
export const ORDER_FILES = {
  orders: 'orders.json',
  /** Changes when keys are renewed. */
  stores: 'stores.json',
  /** The bytes of the input; only stage-in reads it. */
  input: 'input',
} as const;

/** The files for the script that a warm pod gets with its orders. */
export const GIVEN_FILES = {
  script: 'script.sh',
  /** Starts the script with its environment. */
  begin: 'begin.sh',
} as const;

/** The probe paths at which the kubelet asks our container in a warm pod for its state. */
export const WARM_PATHS = { up: '/up', begun: '/begun' } as const;

/**
 * The paths that the script sees, the same in every container that runs scripts
 * (docs/go-manager.md#events-and-scripts).
 */
export const SCRIPT_VIEW = {
  script: '/oscar/config/script.sh',
  begin: '/oscar/config/begin.sh',
  input: '/oscar/input',
  output: '/oscar/output',
  /** Where the wrapper writes its marker files. */
  marks: '/oscar/marks',
  /** Where stage-out writes that everything is done. */
  said: '/oscar/said',
} as const;

/**
 * The parts of the shared directory in the script's container, each with its own mount. A mount cannot be replaced by a
 * link from inside the container, and the script does not see our own part (`own`).
 */
export const SCRIPT_MOUNTS = [
  { subPath: 'input', mountPath: SCRIPT_VIEW.input, readOnly: false },
  { subPath: 'output', mountPath: SCRIPT_VIEW.output, readOnly: false },
  { subPath: 'marks', mountPath: SCRIPT_VIEW.marks, readOnly: false },
  { subPath: 'said', mountPath: SCRIPT_VIEW.said, readOnly: true },
] as const;

/** The parts of the shared directory, as paths in our containers. */
export function sharedParts(shared: string) {
  const own = join(shared, 'own');
  const marks = join(shared, 'marks');
  return {
    input: join(shared, 'input'),
    output: join(shared, 'output'),
    marks,
    /** Exists since the script started; the time of the file is the start. */
    start: join(marks, 'start'),
    /** The exit code of the script, and a newline. */
    exit: join(marks, 'exit'),
    /** The script was asked to end. */
    stop: join(marks, 'stop'),
    /** The script's container ends now: everything is done. */
    left: join(marks, 'left'),
    /** A pipe that wakes the wrapper of a warm pod. */
    wake: join(marks, 'wake'),
    said: join(shared, 'said'),
    done: join(shared, 'said', 'done'),
    /** Exists since the script of a warm pod may start. */
    go: join(shared, 'said', 'go'),
    /** Only our containers can read and change it. */
    own,
    /** Exists since the script may start. */
    ready: join(own, 'ready'),
    /** Uploads that were started or that succeeded, one line each. */
    uploaded: join(own, 'uploaded'),
    answer: join(own, 'answer'),
    /** The result, for a restarted program. */
    result: join(own, 'result.json'),
  };
}

export type SharedParts = ReturnType<typeof sharedParts>;
