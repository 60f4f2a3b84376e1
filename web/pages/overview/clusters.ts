import type { JobSummary, Live, MemberState } from '../../api/live.ts';
import { isEnded } from '../../api/live.ts';
import { type KnownClusters, membersOf, type Service } from '../../api/queries.ts';

type KnownCluster = KnownClusters['clusters'][number];

/** How one resource of a cluster is shared out. */
export type Resource = NonNullable<KnownCluster['cpu']>;

/** A cluster of the federation, as the manager that serves the page knows it. */
export interface ClusterNode {
  readonly id: string;
  readonly isSelf: boolean;
  /** Services of this page that have a replica there. */
  readonly services: readonly string[];
  readonly states: readonly MemberState[];
  readonly running: number;
  /** Jobs on their way there, or whose results are on their way back. */
  readonly travelling: number;
  readonly queued: number;
  /** Absent before the first answer of the manager. */
  readonly known?: KnownCluster | undefined;
  /** What is wrong there, in words. */
  readonly problems: readonly string[];
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
  known: KnownClusters | undefined,
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
  const facts = new Map(known?.clusters.map((each) => [each.cluster_id, each]));
  const states = Map.groupBy(live.members.values(), ({ member }) => member.replace(/\/.*$/, ''));
  const replicas = new Map<string, string[]>([...ids].map((id) => [id, []]));
  for (const service of federated) {
    for (const id of new Set([self, ...membersOf(service).map(({ cluster_id }) => cluster_id)])) {
      replicas.get(id)?.push(service.name);
    }
  }
  const clusters = [...ids].map((id): ClusterNode => {
    const isSelf = id === self;
    const there = states.get(id) ?? [];
    return {
      id,
      isSelf,
      services: replicas.get(id) ?? [],
      states: there,
      running: jobs.running.get(id) ?? 0,
      travelling: jobs.travelling.get(id) ?? 0,
      queued: isSelf ? jobs.queued : (facts.get(id)?.queued ?? 0),
      known: facts.get(id),
      problems: problemsOf(there, facts.get(id)),
    };
  });
  return { clusters, links: [...links.values()].filter(({ from, to }) => from !== to) };
}

function problemsOf(states: readonly MemberState[], known: KnownCluster | undefined): string[] {
  const members = states
    .filter(({ state }) => state !== 'ready')
    .map(({ service, state, reason }) => `${service}: ${state}${reason === undefined ? '' : `, ${reason}`}`);
  return [...members, ...(known?.problem === undefined ? [] : [known.problem])];
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

/** States in which a job, or its result, is between two clusters. */
const TRAVELLING = new Set(['offering', 'delegated', 'committing']);

function countJobs(jobs: Iterable<JobSummary>, self: string) {
  const running = new Map<string, number>();
  const travelling = new Map<string, number>();
  const add = (counts: Map<string, number>, place: string) => counts.set(place, (counts.get(place) ?? 0) + 1);
  let queued = 0;
  for (const job of jobs) {
    if (isEnded(job)) continue;
    const place = job.place ?? self;
    if (place !== self && TRAVELLING.has(job.state)) add(travelling, place);
    if (job.phase === 'Running') add(running, place);
    else queued++;
  }
  return { running, travelling, queued };
}
