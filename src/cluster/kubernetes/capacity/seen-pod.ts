import type { Demand } from '../../job-record.ts';
import type { KubeObject, Stored } from '../api/kinds.ts';
import { JOB_KEY } from '../marks.ts';
import { type Container, type PodSpec, requestOf } from './pod-request.ts';

export interface Pod extends KubeObject {
  readonly spec?: PodSpec;
  readonly status?: { readonly phase?: string };
}

/** What counts of a pod. */
export interface SeenPod {
  /** Of the node that it is bound to; undefined while it waits for one. */
  readonly node: string | undefined;
  readonly ended: boolean;
  readonly request: Demand;
  /** The name under which it has room, if it is an attempt of ours. */
  readonly room: string | undefined;
}

/** Pods that have ended hold nothing, and most pods of a cluster that runs jobs have: they are not even sent to us. */
export const NOT_ENDED = 'status.phase!=Succeeded,status.phase!=Failed';

export function seenPod({ metadata, spec = {}, status }: Pod): SeenPod {
  return {
    node: spec.nodeName || undefined,
    ended: status?.phase === 'Succeeded' || status?.phase === 'Failed',
    request: requestOf(spec),
    room: metadata.annotations?.[JOB_KEY],
  };
}

/** A pod without all that is not read here, which is nearly everything. */
export function slimPod({ metadata, spec = {}, status }: Stored<Pod>): Stored<Pod> {
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
