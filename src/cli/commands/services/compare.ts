import { type Definition, encode, readDefinition, ServiceSchema } from '../../../model/service/index.ts';
import { asYaml } from '../../client/table.ts';
import { servicePath } from '../remote-service.ts';
import type { PreparedFile } from './prepare.ts';

/** How a service would change. */
export interface Compared {
  readonly service: string;
  readonly cluster: string;
  readonly isNew: boolean;
  readonly lines: readonly string[];
}

/** Compares the definition on the cluster with the one that it would have after an update. */
export async function compare({ name, cluster, body }: PreparedFile): Promise<Compared> {
  const answer = await cluster.call('GET', servicePath(name), { expect: [404] });
  const { definition: wanted } = readDefinition(body);
  const there = answer.status === 404 ? undefined : readDefinition(answer.json()).definition;
  const lines = lineDiff(
    there ? toComparableText(withoutRefreshToken(there, wanted)) : '',
    toComparableText(there ? withKeptValues(wanted, there) : wanted),
  );
  return { service: name, cluster: cluster.id, isNew: there === undefined, lines };
}

/** Adds the values that an update keeps if the file does not set them. */
function withKeptValues(wanted: Definition, there: Definition): Definition {
  return {
    ...wanted,
    cluster_id: wanted.cluster_id || there.cluster_id,
    vo: wanted.vo || there.vo,
    ...(wanted.federation === undefined && there.federation && { federation: there.federation }),
  };
}

/** The refresh token that `apply` created for the service is not in the file, so it does not count as a difference. */
function withoutRefreshToken(there: Definition, wanted: Definition): Definition {
  const { refresh_token: _, ...secrets } = there.environment.secrets;
  if (!there.federation || 'refresh_token' in wanted.environment.secrets) return there;
  return { ...there, environment: { ...there.environment, secrets } };
}

/** The definition in the form of an answer, without the keys that the manager sets. */
function toComparableText(definition: Definition): string {
  const setByManager = { token: '', owner: '', bucket_list: [], volume_status: { enabled: false } };
  const whole = encode(ServiceSchema, { ...definition, ...setByManager }) as Record<string, unknown>;
  return asYaml(Object.fromEntries(Object.entries(whole).filter(([key]) => !(key in setByManager))));
}

/** Unchanged lines that are shown around a change. */
const CONTEXT = 3;

type Edit = readonly [sign: ' ' | '-' | '+', line: string];

/** The lines that differ, marked - and +, with their context. Empty if the texts are equal. */
export function lineDiff(before: string, after: string): string[] {
  const edits = findEdits(before.split('\n'), after.split('\n'));
  const near = edits.map((_, index) =>
    edits.slice(Math.max(0, index - CONTEXT), index + CONTEXT + 1).some(([sign]) => sign !== ' '),
  );
  return edits.flatMap(([sign, line], index) => {
    if (near[index]) return [`${sign} ${line}`];
    return near[index - 1] ? ['  …'] : [];
  });
}

/** By the longest common subsequence; definitions are hundreds of lines at most. */
function findEdits(before: readonly string[], after: readonly string[]): Edit[] {
  const common = Array.from({ length: before.length + 1 }, () => new Uint32Array(after.length + 1));
  const at = (row: number, column: number) => common[row]?.[column] ?? 0;
  for (let row = before.length - 1; row >= 0; row--) {
    for (let column = after.length - 1; column >= 0; column--) {
      const length =
        before[row] === after[column]
          ? at(row + 1, column + 1) + 1
          : Math.max(at(row + 1, column), at(row, column + 1));
      common[row]?.fill(length, column, column + 1);
    }
  }
  const edits: Edit[] = [];
  let [row, column] = [0, 0];
  while (row < before.length || column < after.length) {
    const [old, fresh] = [before[row], after[column]];
    if (old !== undefined && old === fresh) {
      edits.push([' ', old]);
      row++;
      column++;
    } else if (old !== undefined && (fresh === undefined || at(row + 1, column) >= at(row, column + 1))) {
      edits.push(['-', old]);
      row++;
    } else if (fresh !== undefined) {
      edits.push(['+', fresh]);
      column++;
    }
  }
  return edits;
}
