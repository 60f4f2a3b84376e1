import type { ClusterClient } from '../client/cluster-client.ts';

/** What a manager says of a service, as far as it is shown. */
export interface SeenService {
  readonly name: string;
  readonly image: string;
  readonly cpu: string;
  readonly memory: string;
  readonly owner: string;
  readonly visibility?: string;
  readonly input: readonly { readonly storage_provider: string; readonly path: string }[];
  readonly output: readonly { readonly storage_provider: string; readonly path: string }[];
  readonly federation?: {
    readonly topology: string;
    readonly delegation?: string;
    readonly delegate_when?: string;
    readonly members?: readonly SeenMember[];
  };
}

export interface SeenMember {
  readonly type: string;
  readonly cluster_id: string;
  readonly service_name: string;
  readonly url?: string;
  readonly priority: number;
  readonly state?: string;
  readonly revision?: number;
  readonly last_seen?: string;
  readonly reason?: string;
}

export interface SeenFederation {
  readonly topology: string;
  readonly replicas: readonly SeenMember[] | null;
  readonly warnings?: readonly string[];
}

export const servicePath = (service: string) => `/system/services/${encodeURIComponent(service)}`;
export const replicasOf = (service: string) => `/system/replicas/${encodeURIComponent(service)}`;

export const seenMemberName = ({ type, cluster_id, service_name, url = '' }: SeenMember) =>
  type === 'endpoint' ? url : `${cluster_id}/${service_name}`;

export async function readService(cluster: ClusterClient, service: string): Promise<SeenService> {
  return (await cluster.call('GET', servicePath(service), { about: `service "${service}"` })).json() as SeenService;
}

/** The members with what is known of each. */
export async function readMembers(cluster: ClusterClient, service: string): Promise<readonly SeenMember[]> {
  const path = `${replicasOf(service)}?include=status`;
  return ((await cluster.call('GET', path, { about: `service "${service}"` })).json() as SeenFederation).replicas ?? [];
}
