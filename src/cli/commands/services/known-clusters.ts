import type { ClusterClient } from '../../client/cluster-client.ts';
import type { ConfigFile } from '../../client/config-file.ts';

/** What a definition says about a cluster that its members are on. */
interface ClusterBlock {
  readonly endpoint: string;
  readonly ssl_verify: boolean;
  readonly auth_user?: string;
  readonly auth_password?: string;
}

type Blocks = Readonly<Record<string, ClusterBlock>>;

/**
 * The administrator has no token that counts elsewhere, and so gives an account of each cluster that members are on
 * (docs/federation.md), as far as the configuration has one.
 */
export function accountsFor(ids: Iterable<string>, cluster: ClusterClient, config: ConfigFile): Blocks {
  if (cluster.credentials.kind !== 'basic') return {};
  return blocksOf(ids, config, ({ auth_user, auth_password }) =>
    auth_user !== undefined && auth_password !== undefined ? { auth_user, auth_password } : {},
  );
}

/** Where the clusters are that a manager says it does not know, as far as the configuration does. */
export function unknownIn(text: string, config: ConfigFile): Blocks {
  const ids = [...text.matchAll(/cluster "([^"]+)" is unknown/g)].map(([, id = '']) => id);
  return blocksOf(ids, config, () => ({}));
}

type Entry = NonNullable<ReturnType<ConfigFile['clusters']['get']>>;

function blocksOf(
  ids: Iterable<string>,
  { clusters }: ConfigFile,
  more: (entry: Entry) => Partial<ClusterBlock>,
): Blocks {
  const blocks: Record<string, ClusterBlock> = {};
  for (const id of ids) {
    const entry = clusters.get(id);
    if (entry) blocks[id] = { endpoint: entry.endpoint, ssl_verify: entry.ssl_verify, ...more(entry) };
  }
  return blocks;
}

export const isEmpty = (blocks: Blocks) => Object.keys(blocks).length === 0;
