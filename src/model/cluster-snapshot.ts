/** Millicores, bytes and devices that no workload has requested. */
export interface Free {
  readonly cpu: number;
  readonly memory: number;
  readonly gpu: number;
}

/** The free capacity and load of a cluster. */
export interface Snapshot {
  /** Free resources of each node that accepts work. */
  readonly nodes: readonly Free[];
  /** Millicores, on all nodes together. */
  readonly freeCpu: number;
  readonly nodeCount: number;
  /** Age of the figures in milliseconds. */
  readonly age: number;
  /** Round-trip time in milliseconds; 0 for this cluster. */
  readonly roundTrip?: number;
  /** Mean of recent jobs, in seconds. */
  readonly meanDuration?: number;
  /** Jobs that are queued there. */
  readonly pending?: number;
  /** Grows with each statement of a manager about its cluster: of two statements, the larger serial is the newer one. */
  readonly serial?: number;
  /**
   * What the cluster has reserved for offers of this origin that it has not answered yet. The origin counts these offers
   * itself.
   */
  readonly considering?: Free;
  /** How many more jobs of other clusters it accepts that wait there for room. */
  readonly queue?: number;
  /** What the nodes that accept work have in all. Absent if the cluster does not say so. */
  readonly total?: Free;
}

export const sumFree = (parts: readonly Free[]): Free =>
  parts.reduce(
    (sum, { cpu, memory, gpu }) => ({ cpu: sum.cpu + cpu, memory: sum.memory + memory, gpu: sum.gpu + gpu }),
    { cpu: 0, memory: 0, gpu: 0 },
  );
