import { queryOptions, useQuery } from '@tanstack/react-query';
import { readPageConfig } from '../session/oidc.ts';
import { call } from './client.ts';
import type { Operations, Service } from './schema.ts';

export type { Service } from './schema.ts';
export type Status = Operations['GET /system/status']['response'];
export type KnownClusters = Operations['GET /system/clusters']['response'];

/** What the page reads, each with the key under which it is cached. */
export const queries = {
  services: () =>
    queryOptions({
      queryKey: ['services'],
      queryFn: async ({ signal }) => (await call('GET /system/services', { signal })).data,
      refetchInterval: 15_000,
    }),
  service: (name: string) =>
    queryOptions({
      queryKey: ['services', name],
      queryFn: async ({ signal }) => {
        const { data, etag } = await call('GET /system/services/{name}', { path: { name }, signal });
        return { service: data, etag };
      },
    }),
  replicas: (name: string) =>
    queryOptions({
      queryKey: ['services', name, 'replicas'],
      queryFn: async ({ signal }) =>
        (await call('GET /system/federation/{name}', { path: { name }, query: { include: 'status' }, signal }))
          .data as Replicas,
      refetchInterval: 5_000,
    }),
  status: () =>
    queryOptions({
      queryKey: ['status'],
      queryFn: async ({ signal }) => (await call('GET /system/status', { signal })).data,
      refetchInterval: 5_000,
    }),
  /** What this manager knows of the clusters of federations. */
  clusters: () =>
    queryOptions({
      queryKey: ['clusters'],
      queryFn: async ({ signal }) => (await call('GET /system/clusters', { signal })).data,
      refetchInterval: 5_000,
    }),
  checks: () =>
    queryOptions({
      queryKey: ['checks'],
      queryFn: async ({ signal }) => (await call('GET /system/checks', { signal })).data.checks,
      refetchInterval: 30_000,
    }),
  audit: () =>
    queryOptions({
      queryKey: ['audit'],
      queryFn: async ({ signal }) => (await call('GET /system/audit', { signal })).data.records,
      refetchInterval: 15_000,
    }),
  info: () =>
    queryOptions({
      queryKey: ['info'],
      queryFn: async ({ signal }) => (await call('GET /system/info', { signal })).data,
    }),
  config: () =>
    queryOptions({
      queryKey: ['config'],
      queryFn: async ({ signal }) => (await call('GET /system/config', { signal })).data,
    }),
  job: (service: string, id: string) =>
    queryOptions({
      queryKey: ['jobs', service, id],
      queryFn: async ({ signal }) =>
        (await call('GET /system/jobs/{name}/{id}', { path: { name: service, id }, signal })).data,
    }),
  pageConfig: () => queryOptions({ queryKey: ['page'], queryFn: readPageConfig, staleTime: Number.POSITIVE_INFINITY }),
  buckets: () =>
    queryOptions({
      queryKey: ['buckets'],
      queryFn: async ({ signal }) => (await call('GET /system/buckets', { signal })).data,
    }),
};

/** A member of a federation with its status, which the OpenAPI document does not describe in detail. */
export interface Replica {
  readonly type: string;
  readonly cluster_id: string;
  readonly service_name: string;
  readonly url: string;
  readonly priority: number;
  readonly state?: string;
  readonly reason?: string;
  readonly last_seen?: string;
}

export interface Replicas {
  readonly topology: string;
  readonly members: readonly Replica[] | null;
  readonly conditions?: readonly { readonly type: string; readonly reason: string }[];
  readonly warnings?: readonly string[];
}

export const useServices = () => useQuery(queries.services());

export const membersOf = ({ federation }: Service): readonly Replica[] => federation?.members ?? [];
