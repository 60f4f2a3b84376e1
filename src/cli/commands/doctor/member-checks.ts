import { type Check, checkMember, failure, passed } from '../../../model/cluster-checks.ts';
import type { ClusterClient } from '../../client/cluster-client.ts';
import type { RemoteJob } from '../jobs/remote-job.ts';
import { formatMember, type RemoteFederation, type RemoteMember } from '../remote-service.ts';
import { formatSpan } from '../units.ts';

interface Condition {
  readonly type: string;
  readonly reason: string;
}

export type FederationState = RemoteFederation & { readonly conditions?: readonly Condition[] };

/** Checks what the coordinator reports about the members of a service and the grant of its owner. */
export function memberChecks(
  service: string,
  { replicas, conditions = [] }: FederationState,
  jobs: readonly RemoteJob[],
  now: number,
): Check[] {
  const members = replicas ?? [];
  const grants = conditions.map(({ type, reason }) => failure(service, 'grant', `${type}: ${reason}`));
  if (members.length === 0) return [passed(service, 'members', 'no members')];
  return [
    ...(grants.length > 0 ? grants : [passed(service, 'grant', 'valid')]),
    ...members.flatMap((member) => [checkState(member), ...checkStorage(member, jobs, now)]),
  ];
}

function checkState(member: RemoteMember): Check {
  const { type, state = '', reason } = member;
  const name = formatMember(member);
  if (type === 'endpoint') return passed(name, 'member', 'not checked: endpoints have no status');
  return checkMember(name, state, reason);
}

/** Only the member itself can test its access to the coordinator's store. It does so with every job, so look at its newest one. */
function checkStorage(member: RemoteMember, jobs: readonly RemoteJob[], now: number): Check[] {
  if (member.type === 'endpoint') return [];
  const name = formatMember(member);
  for (const { attempts, decisions, state, accepted_at } of jobs) {
    const ago = `${formatSpan(now - Date.parse(accepted_at))} ago`;
    const refusal = decisions.flatMap(({ candidates }) => candidates).find((each) => each.member === name)?.refusal;
    if (refusal?.includes('cannot read its input')) {
      const advice =
        'it cannot reach the store of the coordinator: check MINIO_PUBLIC_ENDPOINT of the coordinator, or `store` in its OSCAR_CLUSTERS';
      return [failure(name, 'storage', `${ago}: ${refusal}; ${advice}`)];
    }
    if (attempts.at(-1)?.place === member.cluster_id && state === 'succeeded') {
      return [passed(name, 'storage', `read its input and wrote results ${ago}`)];
    }
  }
  return [passed(name, 'storage', 'not checked: no recent job ran there')];
}

/** The first page of the jobs of a service, newest first. */
export async function readNewestJobs(cluster: ClusterClient, service: string): Promise<readonly RemoteJob[]> {
  const answer = await cluster.call('GET', `/system/jobs/${encodeURIComponent(service)}`, { expect: [404, 409] });
  return answer.status >= 400 ? [] : (answer.json() as { jobs: RemoteJob[] }).jobs;
}
