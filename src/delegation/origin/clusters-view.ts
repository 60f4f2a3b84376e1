import type { FederationCondition } from '../../federation/index.ts';
import { type Admin, may, type User } from '../../identity/index.ts';
import { mapConcurrent } from '../../lib/concurrency.ts';
import type { Free, Snapshot } from '../../model/cluster-snapshot.ts';
import type { Service } from '../../model/service/index.ts';
import { listServices, type Services } from '../../services/index.ts';
import { clustersToWatch } from './offer-loop.ts';
import type { OriginDeps } from './origin.ts';

/** How one resource of a cluster is shared out, in millicores, bytes or devices. */
interface ResourceView {
  readonly total: number;
  readonly used: number;
  /** Wanted by jobs that were sent there and that its last figures do not include. */
  readonly promised: number;
  readonly free: number;
}

/** What this manager knows of a cluster. */
interface ClusterView {
  readonly cluster_id: string;
  readonly self: boolean;
  /** The capacity is absent if the cluster has not answered yet, or does not tell its size. */
  readonly cpu?: ResourceView;
  readonly memory?: ResourceView;
  readonly gpu?: ResourceView;
  readonly nodes?: number;
  readonly queued?: number;
  readonly round_trip_ms?: number;
  readonly age_ms?: number;
  /** Why it did not answer when it was last asked. */
  readonly problem?: string;
}

export interface ClustersView {
  /** This cluster first. */
  readonly clusters: readonly ClusterView[];
  /** What the owners of services must know, such as credentials that have expired. */
  readonly conditions: readonly (FederationCondition & { readonly service: string })[];
}

export interface ClustersViewDeps extends Pick<OriginDeps, 'federations' | 'ownStatus' | 'self' | 'getOwnerToken'> {
  readonly scoreboard: Pick<
    OriginDeps['scoreboard'] & { problemAt(place: string): string | undefined },
    'watch' | 'snapshotFor' | 'inFlightFor' | 'problemAt'
  >;
  readonly catalog: Pick<Services, 'services'>;
  readonly conditions?: ((service: Service) => Promise<readonly FederationCondition[]>) | undefined;
}

/** Reads of ledgers at once. More: a large list burdens the store. Fewer: its answer takes longer. */
const READS = 16;

/**
 * This cluster, and the clusters of the federations that the caller may see. Their figures are those of the scoreboard, which
 * queries these clusters while callers read this view.
 */
export async function viewClusters(principal: Admin | User, deps: ClustersViewDeps): Promise<ClustersView> {
  const { scoreboard, federations, catalog, self } = deps;
  const records = await listServices(principal, catalog);
  const coordinated = records.filter(
    ({ service }) => service.federation?.role === 'coordinator' && may(principal, 'read-federation', service) === 'yes',
  );
  const places = new Map<string, string>();
  const conditions: ClustersView['conditions'][number][] = [];
  await mapConcurrent(coordinated, READS, async ({ service }) => {
    const { name } = service.definition;
    const [federation, found = []] = await Promise.all([federations.get(name), deps.conditions?.(service)]);
    conditions.push(...found.map((condition) => ({ service: name, ...condition })));
    if (!federation) return;
    scoreboard.watch(clustersToWatch(federation, deps));
    for (const { type, place, endpoint } of federation.members) if (type === 'oscar') places.set(place, endpoint);
  });
  places.delete(self.clusterId);
  const others = [...places].toSorted(([one], [other]) => (one < other ? -1 : 1));
  return {
    clusters: [ownCluster(deps), ...others.map(([id, endpoint]) => otherCluster(id, endpoint, scoreboard))],
    conditions: conditions.toSorted((one, other) => (one.service < other.service ? -1 : 1)),
  };
}

function ownCluster({ self, ownStatus }: ClustersViewDeps): ClusterView {
  const { snapshot, waiting } = ownStatus();
  return {
    cluster_id: self.clusterId,
    self: true,
    ...toResources(snapshot, NOTHING),
    nodes: snapshot.nodeCount,
    queued: waiting,
  };
}

function otherCluster(id: string, endpoint: string, scoreboard: ClustersViewDeps['scoreboard']): ClusterView {
  const snapshot = scoreboard.snapshotFor(endpoint);
  const problem = scoreboard.problemAt(endpoint);
  return {
    cluster_id: id,
    self: false,
    ...(snapshot && {
      ...toResources(snapshot, scoreboard.inFlightFor(endpoint)),
      nodes: snapshot.nodeCount,
      ...(snapshot.pending !== undefined && { queued: snapshot.pending }),
      ...(snapshot.roundTrip !== undefined && { round_trip_ms: Math.round(snapshot.roundTrip * 10) / 10 }),
      age_ms: Math.round(snapshot.age),
    }),
    ...(problem !== undefined && { problem }),
  };
}

const NOTHING: Free = { cpu: 0, memory: 0, gpu: 0 };

function toResources({ nodes, total }: Snapshot, inFlight: Free): Pick<ClusterView, 'cpu' | 'memory' | 'gpu'> {
  if (!total) return {};
  const resource = (dimension: keyof Free): ResourceView => {
    const unused = nodes.reduce((sum, node) => sum + node[dimension], 0);
    // Negative if more jobs have ended there than were sent since its last figures.
    const promised = Math.min(unused, Math.max(0, inFlight[dimension]));
    const free = Math.min(total[dimension], Math.max(0, unused - inFlight[dimension]));
    return { total: total[dimension], used: Math.max(0, total[dimension] - free - promised), promised, free };
  };
  return { cpu: resource('cpu'), memory: resource('memory'), gpu: resource('gpu') };
}
