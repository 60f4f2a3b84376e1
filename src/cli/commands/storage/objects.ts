import type { ClusterClient } from '../../client/cluster-client.ts';

export interface RemoteListedObject {
  readonly object_name: string;
  readonly size_bytes: number;
  readonly last_modified: string;
}

/** All objects of a bucket. */
export async function objectsOf(cluster: ClusterClient, bucket: string): Promise<RemoteListedObject[]> {
  const found: RemoteListedObject[] = [];
  let page: string | undefined;
  do {
    const query = page === undefined ? '' : `?page=${encodeURIComponent(page)}`;
    const path = `/system/buckets/${encodeURIComponent(bucket)}${query}`;
    const answer = (await cluster.call('GET', path, { about: `bucket "${bucket}"` })).json() as {
      objects?: RemoteListedObject[];
      next_page?: string;
    };
    found.push(...(answer.objects ?? []));
    page = answer.next_page;
  } while (page !== undefined);
  return found;
}
