import type { JobSummary, Live, MemberState } from '../../api/live.ts';
import { isEnded } from '../../api/live.ts';
import { membersOf, type Service, type Status } from '../../api/queries.ts';

/** A cluster of the federation, as the manager that serves the page knows it. */
export interface ClusterNode {
  readonly id: string;
  readonly isSelf: boolean;
  /** Services of this page that have a replica there. */
  readonly services: readonly string[];
  readonly states: readonly MemberState[];
  readonly running: number;
  readonly queued: number;
  readonly capacity?: Capacity;
}

export interface Capacity {
  readonly cpu: Amount;
  readonly memory: Amount;
  readonly gpu: number;
}

interface Amount {
  readonly used: number;
  readonly total: number;
}

export interface ClusterLink {
  readonly from: string;
  readonly to: string;
  /** The worst state of the members between the two. */
  readonly state: string;
}

export interface FederationGraph {
  readonly clusters: readonly ClusterNode[];
  readonly links: readonly ClusterLink[];
}

const WORST_FIRST = ['conflict', 'unreachable', 'removed-by-owner', 'removing', 'pending', 'ready'];

/** Clusters and links from the definitions of services, the states of members and the jobs. The own cluster is first. */
export function toGraph(
  services: readonly Service[],
  live: Live,
  status: Status | undefined,
  self: string,
): FederationGraph {
  const federated = services.filter((service) => membersOf(service).some(({ type }) => type === 'oscar'));
  const ids = new Set([self]);
  const links = new Map<string, ClusterLink>();
  for (const service of federated) {
    const home = service.cluster_id || self;
    const members = membersOf(service).filter(({ type }) => type === 'oscar');
    for (const { cluster_id } of members) {
      ids.add(home);
      ids.add(cluster_id);
      const state = stateOf(service.name, cluster_id, live.members);
      addLink(links, { from: home, to: cluster_id, state });
    }
    if (service.federation?.topology !== 'mesh') continue;
    for (const [index, { cluster_id: from }] of members.entries()) {
      for (const { cluster_id: to } of members.slice(index + 1)) addLink(links, { from, to, state: 'ready' });
    }
  }
  const jobs = countJobs(live.jobs.values(), self);
  const clusters = [...ids].map((id): ClusterNode => {
    const isSelf = id === self;
    return {
      id,
      isSelf,
      services: federated
        .filter((each) => isSelf || membersOf(each).some(({ cluster_id }) => cluster_id === id))
        .map(({ name }) => name),
      states: [...live.members.values()].filter(({ member }) => member.startsWith(`${id}/`)),
      running: jobs.running.get(id) ?? 0,
      queued: isSelf ? jobs.queued : 0,
      ...(isSelf && status && { capacity: capacityOf(status) }),
    };
  });
  return { clusters, links: [...links.values()].filter(({ from, to }) => from !== to) };
}

function stateOf(service: string, cluster: string, members: Live['members']): string {
  for (const each of members.values()) {
    if (each.service === service && each.member.startsWith(`${cluster}/`)) return each.state;
  }
  return 'ready';
}

function addLink(links: Map<string, ClusterLink>, link: ClusterLink): void {
  const key = [link.from, link.to].toSorted().join(' ');
  const known = links.get(key);
  if (!known || WORST_FIRST.indexOf(link.state) < WORST_FIRST.indexOf(known.state)) links.set(key, link);
}

function countJobs(jobs: Iterable<JobSummary>, self: string) {
  const running = new Map<string, number>();
  let queued = 0;
  for (const job of jobs) {
    if (isEnded(job)) continue;
    if (job.phase === 'Running') {
      const place = job.place ?? self;
      running.set(place, (running.get(place) ?? 0) + 1);
    } else queued++;
  }
  return { running, queued };
}

function capacityOf({ cluster }: Status): Capacity {
  const nodes = cluster.nodes ?? [];
  const sum = (read: (node: (typeof nodes)[number]) => number | undefined) =>
    nodes.reduce((total, node) => total + (read(node) ?? 0), 0);
  return {
    cpu: { used: sum(({ cpu }) => cpu.request_cores), total: sum(({ cpu }) => cpu.capacity_cores) },
    memory: { used: sum(({ memory }) => memory.request_bytes), total: sum(({ memory }) => memory.capacity_bytes) },
    gpu: sum(({ gpu }) => gpu),
  };
}
