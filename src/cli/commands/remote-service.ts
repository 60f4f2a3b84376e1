import type { ClusterClient } from '../client/cluster-client.ts';
import type { Column } from '../client/table.ts';
import { formatSpan } from './units.ts';

/** The fields of a service that commands show. */
export interface RemoteService {
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
    readonly members?: readonly RemoteMember[];
  };
}

export interface RemoteMember {
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

export interface RemoteFederation {
  readonly topology: string;
  readonly replicas: readonly RemoteMember[] | null;
  readonly warnings?: readonly string[];
}

export const servicePath = (service: string) => `/system/services/${encodeURIComponent(service)}`;
export const replicasPath = (service: string) => `/system/replicas/${encodeURIComponent(service)}`;

export const formatMember = ({ type, cluster_id, service_name, url = '' }: RemoteMember) =>
  type === 'endpoint' ? url : `${cluster_id}/${service_name}`;

export async function readService(cluster: ClusterClient, service: string): Promise<RemoteService> {
  return (await cluster.call('GET', servicePath(service), { about: `service "${service}"` })).json() as RemoteService;
}

/** The members of a service with their state. */
export async function readMembers(cluster: ClusterClient, service: string): Promise<readonly RemoteMember[]> {
  const path = `${replicasPath(service)}?include=status`;
  return (
    ((await cluster.call('GET', path, { about: `service "${service}"` })).json() as RemoteFederation).replicas ?? []
  );
}

export const MEMBER_COLUMNS: readonly Column<RemoteMember>[] = [
  { title: 'MEMBER', of: formatMember },
  { title: 'STATE', of: ({ state = '' }) => state },
  { title: 'PRIORITY', of: ({ priority }) => String(priority) },
  { title: 'REVISION', of: ({ revision }) => String(revision ?? ''), wide: true },
  {
    title: 'LAST SEEN',
    of: ({ last_seen }) => (last_seen ? `${formatSpan(Date.now() - Date.parse(last_seen))} ago` : ''),
    wide: true,
  },
  { title: 'REASON', of: ({ reason = '' }) => reason },
];
