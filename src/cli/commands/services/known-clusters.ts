import type { ClusterClient } from '../../client/cluster-client.ts';
import type { ConfigFile } from '../../client/config-file.ts';

/** What a definition states about the cluster of a member. */
interface ClusterBlock {
  readonly endpoint: string;
  readonly ssl_verify: boolean;
  readonly auth_user?: string;
  readonly auth_password?: string;
}

type Blocks = Readonly<Record<string, ClusterBlock>>;

/**
 * The administrator has no token that other clusters accept. So the definition carries an account for each member's cluster
 * (docs/federation.md) if the configuration has one.
 */
export function accountsFor(ids: Iterable<string>, cluster: ClusterClient, config: ConfigFile): Blocks {
  if (cluster.credentials.kind !== 'basic') return {};
  return toBlocks(ids, config, ({ auth_user, auth_password }) =>
    auth_user !== undefined && auth_password !== undefined ? { auth_user, auth_password } : {},
  );
}

/** The endpoints of clusters that a manager's error names as unknown, if the configuration has them. */
export function findUnknownClusters(text: string, config: ConfigFile): Blocks {
  const ids = [...text.matchAll(/cluster "([^"]+)" is unknown/g)].map(([, id = '']) => id);
  return toBlocks(ids, config, () => ({}));
}

type Entry = NonNullable<ReturnType<ConfigFile['clusters']['get']>>;

function toBlocks(
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
