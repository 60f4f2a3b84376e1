import type { Demand } from '../../../model/job/index.ts';
import type { KubeObject, Stored } from '../client/kinds.ts';
import { JOB_KEY } from '../objects/labels.ts';
import { larger, NOTHING, parseDemand, type Quantities, sum } from './quantities.ts';

export interface ScheduledPod extends KubeObject {
  readonly spec?: PodSpec;
  readonly status?: { readonly phase?: string };
}

/** The facts about a pod that determine what it takes of its node. */
export interface PodInfo {
  /** The node to which it is bound; undefined while it waits for one. */
  readonly node: string | undefined;
  readonly ended: boolean;
  readonly request: Demand;
  /** The name of its reservation, if it belongs to an attempt. */
  readonly reservation: string | undefined;
}

/** Field selector: ended pods, which are most of the pods of a cluster with jobs, take nothing and are not even sent. */
export const NOT_ENDED = 'status.phase!=Succeeded,status.phase!=Failed';

export function toPodInfo({ metadata, spec = {}, status }: ScheduledPod): PodInfo {
  return {
    node: spec.nodeName || undefined,
    ended: status?.phase === 'Succeeded' || status?.phase === 'Failed',
    request: podRequest(spec),
    reservation: metadata.annotations?.[JOB_KEY],
  };
}

/** The pod reduced to the few fields that are read here. */
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
  /** `Always` on an init container makes it a sidecar, which runs together with the other containers. */
  readonly restartPolicy?: string;
}

export interface PodSpec {
  readonly nodeName?: string;
  readonly containers?: readonly Container[];
  readonly initContainers?: readonly Container[];
  /** Resources of the container runtime itself. */
  readonly overhead?: Quantities;
  /** Resources of the whole pod; they replace those of the containers. */
  readonly resources?: Resources;
}

/**
 * The request of a pod as the scheduler counts it: all containers and sidecars together, or an init container with the
 * sidecars that run by then, whichever is larger.
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
