import type { ClusterClient } from '../../client/cluster-client.ts';
import type { ToldJob } from '../jobs/told-job.ts';
import { type SeenFederation, type SeenMember, seenMemberName } from '../seen.ts';
import { span } from '../units.ts';
import { bad, type Check, good } from './check.ts';

/** What to do about a member that is not ready; docs/troubleshooting.md has more. */
const ADVICE: Readonly<Record<string, string>> = {
  pending: 'send the service once more as its owner (`oscar apply`), if it stays so',
  unreachable: 'is that manager up, and does the coordinator reach it? It is brought up to date when it is back',
  conflict: 'rename the member or delete what has its name there, and `oscar apply` once more',
  removing: 'it is ended when its jobs are done, after 24 h at the latest',
  'removed-by-owner': 'remove the member with `oscar replicas remove`, or add it again',
};

interface Condition {
  readonly type: string;
  readonly reason: string;
}

export type FederationState = SeenFederation & { readonly conditions?: readonly Condition[] };

/** What the coordinator knows of the members of a service, and of the grant of its owner. */
export function memberChecks(
  service: string,
  { replicas, conditions = [] }: FederationState,
  jobs: readonly ToldJob[],
  now: number,
): Check[] {
  const members = replicas ?? [];
  const grants = conditions.map(({ type, reason }) => bad(service, 'grant', `${type}: ${reason}`));
  if (members.length === 0) return [good(service, 'members', 'it has none')];
  return [
    ...(grants.length > 0 ? grants : [good(service, 'grant', 'nothing is wrong with it')]),
    ...members.flatMap((member) => [stateOf(member), ...filesOf(member, jobs, now)]),
  ];
}

function stateOf(member: SeenMember): Check {
  const { type, state = '', reason } = member;
  const name = seenMemberName(member);
  if (type === 'endpoint') return good(name, 'member', 'an endpoint is not asked how it is');
  if (state === 'ready') return good(name, 'member', 'ready');
  const advice = ADVICE[state];
  return bad(name, 'member', [`${state}${reason ? `: ${reason}` : ''}`, advice].filter(Boolean).join('; '));
}

/**
 * Only a member itself can read and write from where it is, and does so with every job: its newest one tells how it
 * went.
 */
function filesOf(member: SeenMember, jobs: readonly ToldJob[], now: number): Check[] {
  if (member.type === 'endpoint') return [];
  const name = seenMemberName(member);
  for (const { attempts, decisions, state, accepted_at } of jobs) {
    const ago = `${span(now - Date.parse(accepted_at))} ago`;
    const refusal = decisions.flatMap(({ candidates }) => candidates).find((each) => each.member === name)?.refusal;
    if (refusal?.includes('cannot read its input')) {
      const advice =
        'it does not reach the store of the coordinator: MINIO_PUBLIC_ENDPOINT there, `store` under OSCAR_CLUSTERS here';
      return [bad(name, 'storage', `${ago}: ${refusal}; ${advice}`)];
    }
    if (attempts.at(-1)?.place === member.cluster_id && state === 'succeeded') {
      return [good(name, 'storage', `it read a file and wrote its results ${ago}`)];
    }
  }
  return [good(name, 'storage', 'not tried so far: no job of late ran there')];
}

/** The newest jobs of a service, as many as the manager gives at once. */
export async function newestOf(cluster: ClusterClient, service: string): Promise<readonly ToldJob[]> {
  const answer = await cluster.call('GET', `/system/jobs/${encodeURIComponent(service)}`, { expect: [404, 409] });
  return answer.status >= 400 ? [] : (answer.json() as { jobs: ToldJob[] }).jobs;
}
