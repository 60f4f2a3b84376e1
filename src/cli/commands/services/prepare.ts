import { readDefinition, ServiceError } from '../../../model/service/index.ts';
import type { ClusterClient } from '../../client/cluster-client.ts';
import { ClientError } from '../../client/errors.ts';
import { type FileService, readFdlFile } from '../../client/fdl-file.ts';
import type { Session } from '../../client/session.ts';
import { accountsFor, isEmpty } from './known-clusters.ts';

/** A service of an FDL file, and the cluster it is for. */
export interface PreparedFile {
  readonly name: string;
  readonly cluster: ClusterClient;
  readonly body: FileService['body'];
}

/** Reads the services of an FDL file. All of them are validated before the first one is sent. */
export async function prepareFile(file: string, session: Session): Promise<PreparedFile[]> {
  const services = readFdlFile(file, session.terminal);
  if (services.length === 0) throw new ClientError('bad-input', `${file}: functions.oscar has no services`);
  const prepared: PreparedFile[] = [];
  const problems: string[] = [];
  for (const service of services) {
    const cluster = await session.cluster(service.clusterId);
    const body = bodyFor(service, cluster, session);
    problems.push(...findProblems(body).map((problem) => `${file}:${service.line}: ${problem}`));
    prepared.push({ name: service.name, cluster, body });
  }
  if (problems.length > 0) throw new ClientError('bad-input', problems.join('\n'));
  return prepared;
}

function bodyFor({ body, clusterId }: FileService, cluster: ClusterClient, { config }: Session): FileService['body'] {
  const members = body.federation?.members ?? [];
  const ids = Array.isArray(members) ? members.flatMap((each) => each?.cluster_id ?? []) : [];
  const accounts = accountsFor(ids, cluster, config);
  return {
    ...body,
    ...(clusterId !== undefined && { cluster_id: cluster.id }),
    ...(!isEmpty(accounts) && { clusters: { ...accounts, ...body.clusters } }),
  };
}

function findProblems(body: FileService['body']): string[] {
  try {
    readDefinition(body);
    return [];
  } catch (error) {
    if (error instanceof ServiceError) return error.message.split('\n');
    throw error;
  }
}
