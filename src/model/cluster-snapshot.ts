/** Millicores, bytes and devices that nobody has asked for. */
export interface Free {
  readonly cpu: number;
  readonly memory: number;
  readonly gpu: number;
}

/** What is known of a cluster. */
export interface Snapshot {
  /** What is free on each node that takes work. */
  readonly nodes: readonly Free[];
  /** Millicores, on all nodes together. */
  readonly freeCpu: number;
  readonly nodeCount: number;
  /** Milliseconds since it was true. */
  readonly age: number;
  /** Milliseconds; 0 for this cluster. */
  readonly roundTrip?: number;
  /** Mean of recent jobs, in seconds. */
  readonly meanDuration?: number;
  /** Jobs that wait there. */
  readonly pending?: number;
}
