import type { ClusterClient } from '../../client/cluster-client.ts';

/** What a manager says of a service, as far as it is shown. */
export interface Service {
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
    readonly members?: readonly Member[];
  };
}

export interface Member {
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

export interface Federation {
  readonly topology: string;
  readonly replicas: readonly Member[] | null;
  readonly warnings?: readonly string[];
}

export const pathOf = (service: string) => `/system/services/${encodeURIComponent(service)}`;
export const replicasOf = (service: string) => `/system/replicas/${encodeURIComponent(service)}`;

export const memberName = ({ type, cluster_id, service_name, url = '' }: Member) =>
  type === 'endpoint' ? url : `${cluster_id}/${service_name}`;

export async function readService(cluster: ClusterClient, service: string): Promise<Service> {
  return (await cluster.call('GET', pathOf(service), { about: `service "${service}"` })).json() as Service;
}

/** The members with what is known of each. */
export async function readMembers(cluster: ClusterClient, service: string): Promise<readonly Member[]> {
  const path = `${replicasOf(service)}?include=status`;
  return ((await cluster.call('GET', path, { about: `service "${service}"` })).json() as Federation).replicas ?? [];
}
