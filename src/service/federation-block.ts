import { clusterIdProblem, serviceNameProblem } from './names.ts';
import type { Report } from './read.ts';
import type { Federation, Replica } from './schema.ts';

const TOPOLOGIES = ['none', 'star', 'tree', 'mesh'];
const POLICIES = ['static', 'random', 'load-based', 'topsis'];

/** The federation block in canonical form (contract §2.10, design §7–§9). The topology stays as the user wrote it. */
export function readFederation(given: Federation, serviceName: string, report: Report): Federation {
  const { token_sharing, ...federation } = given;
  const path = 'federation';
  if (token_sharing !== undefined) {
    report(`${path}.token_sharing`, 'is refused: a refresh token has one holder, the manager of the coordinator');
  }
  check(`${path}.topology`, federation.topology.toLowerCase(), TOPOLOGIES, report);
  const delegation = federation.delegation?.trim().toLowerCase();
  if (delegation !== undefined) check(`${path}.delegation`, delegation, POLICIES, report);
  if (federation.deployment !== undefined) {
    check(`${path}.deployment`, federation.deployment, ['transactional', 'best-effort'], report);
  }
  if (federation.delegate_when !== undefined) {
    check(`${path}.delegate_when`, federation.delegate_when, ['saturated', 'always'], report);
  }
  if ((federation.rescheduler_threshold ?? 0) < 0) report(`${path}.rescheduler_threshold`, 'must not be negative');
  if ((federation.self?.priority ?? 0) < 0) report(`${path}.self.priority`, 'must not be negative');
  if ((federation.self?.weight ?? 0) < 0) report(`${path}.self.weight`, 'must not be negative');
  for (const [id, weight] of Object.entries(federation.weights ?? {})) {
    report(`${path}.weights.${id}`, clusterIdProblem(id) ?? (weight < 0 ? 'must not be negative' : undefined));
  }
  const members = federation.members?.map((member, index) => readMember(member, `${path}.members[${index}]`, report));
  reportRepeated(members ?? [], `${path}.members`, report);
  return {
    ...federation,
    group_id: federation.group_id || serviceName,
    ...(delegation && { delegation }),
    ...(members && { members }),
  };
}

function check(path: string, value: string, allowed: readonly string[], report: Report): void {
  if (!allowed.includes(value)) report(path, `"${value}" is not one of ${allowed.join(', ')}`);
}

function readMember(given: Replica, path: string, report: Report): Replica {
  const type = given.type.trim().toLowerCase();
  if (given.priority < 0) report(`${path}.priority`, 'must not be negative');
  if (type === 'endpoint') {
    if (!isHttpUrl(given.url)) report(`${path}.url`, 'must be an http or https URL');
    return { ...given, type };
  }
  if (type !== 'oscar') report(`${path}.type`, `"${given.type}" is not one of oscar, endpoint`);
  report(`${path}.cluster_id`, clusterIdProblem(given.cluster_id));
  report(`${path}.service_name`, serviceNameProblem(given.service_name));
  // What the cluster says about TLS counts; upstream shows false here and so do we (design §6).
  return { ...given, type, ssl_verify: false };
}

function reportRepeated(members: readonly Replica[], path: string, report: Report): void {
  const seen = new Set<string>();
  for (const [index, { type, cluster_id, service_name, url }] of members.entries()) {
    const identity = JSON.stringify([type, cluster_id, service_name, url]);
    if (seen.has(identity)) report(`${path}[${index}]`, 'is there twice');
    seen.add(identity);
  }
}

function isHttpUrl(text: string): boolean {
  const url = URL.parse(text);
  return (
    url !== null &&
    (url.protocol === 'http:' || url.protocol === 'https:') &&
    url.username === '' &&
    url.password === ''
  );
}
