import type { Demand } from '../../../model/job/index.ts';
import type { KubeObject, Stored } from '../client/kinds.ts';
import { JOB_KEY } from '../objects/labels.ts';
import { larger, NOTHING, parseDemand, type Quantities, sum } from './quantities.ts';

export interface ScheduledPod extends KubeObject {
  readonly spec?: PodSpec;
  readonly status?: { readonly phase?: string };
}

/** What counts of a pod. */
export interface PodInfo {
  /** Of the node that it is bound to; undefined while it waits for one. */
  readonly node: string | undefined;
  readonly ended: boolean;
  readonly request: Demand;
  /** The name under which it has room, if it is an attempt of ours. */
  readonly reservation: string | undefined;
}

/** Pods that have ended hold nothing, and most pods of a cluster that runs jobs have: they are not even sent to us. */
export const NOT_ENDED = 'status.phase!=Succeeded,status.phase!=Failed';

export function toPodInfo({ metadata, spec = {}, status }: ScheduledPod): PodInfo {
  return {
    node: spec.nodeName || undefined,
    ended: status?.phase === 'Succeeded' || status?.phase === 'Failed',
    request: podRequest(spec),
    reservation: metadata.annotations?.[JOB_KEY],
  };
}

/** A pod without all that is not read here, which is nearly everything. */
export function slimScheduledPod({ metadata, spec = {}, status }: Stored<ScheduledPod>): Stored<ScheduledPod> {
  const { name, uid, resourceVersion } = metadata;
  const room = metadata.annotations?.[JOB_KEY];
  const { nodeName, containers = [], initContainers = [], overhead, resources } = spec;
  return {
    metadata: {
      name,
      uid,
      resourceVersion,
      ...(room !== undefined && { annotations: { [JOB_KEY]: room } }),
    },
    spec: {
      ...(nodeName !== undefined && { nodeName }),
      containers: containers.map(slimContainer),
      initContainers: initContainers.map(slimContainer),
      ...(overhead && { overhead }),
      ...(resources && { resources }),
    },
    ...(status?.phase !== undefined && { status: { phase: status.phase } }),
  };
}

function slimContainer({ resources, restartPolicy }: Container): Container {
  return { ...(resources && { resources }), ...(restartPolicy !== undefined && { restartPolicy }) };
}

interface Resources {
  readonly requests?: Quantities;
}

export interface Container {
  readonly resources?: Resources;
  /** `Always` on an init container: a sidecar, which goes on beside the others. */
  readonly restartPolicy?: string;
}

export interface PodSpec {
  readonly nodeName?: string;
  readonly containers?: readonly Container[];
  readonly initContainers?: readonly Container[];
  /** What the runtime itself takes. */
  readonly overhead?: Quantities;
  /** Of the whole pod. What it names counts in place of the containers'. */
  readonly resources?: Resources;
}

/**
 * What a pod takes of its node, as the scheduler counts it: its containers together with the sidecars, or an init
 * container with the sidecars that are up by then, whichever is more.
 */
export function podRequest({ containers = [], initContainers = [], overhead, resources }: PodSpec): Demand {
  let sidecars = NOTHING;
  let most = NOTHING;
  for (const container of initContainers) {
    const beside = sum(sidecars, asked(container));
    if (container.restartPolicy === 'Always') sidecars = beside;
    most = larger(most, beside);
  }
  const together = larger(most, containers.map(asked).reduce(sum, sidecars));
  const { cpu, memory } = resources?.requests ?? {};
  const whole = parseDemand(resources?.requests);
  const counted = {
    ...together,
    ...(cpu !== undefined && { cpu: whole.cpu }),
    ...(memory !== undefined && { memory: whole.memory }),
  };
  return overhead ? sum(counted, parseDemand(overhead)) : counted;
}

const asked = ({ resources }: Container) => parseDemand(resources?.requests);
