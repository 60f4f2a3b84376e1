import { encode } from '../../../service/codec.ts';
import { readDefinition } from '../../../service/read.ts';
import { ServiceSchema } from '../../../service/schema.ts';
import type { Definition } from '../../../service/service.ts';
import { asYaml } from '../../client/table.ts';
import { lineDiff } from './line-diff.ts';
import type { Prepared } from './prepare.ts';
import { pathOf } from './seen.ts';

/** How a service would change. */
export interface Compared {
  readonly service: string;
  readonly cluster: string;
  readonly isNew: boolean;
  readonly lines: readonly string[];
}

/** What the cluster has, and what it would have after an update, line by line. */
export async function compare({ name, cluster, body }: Prepared): Promise<Compared> {
  const answer = await cluster.call('GET', pathOf(name), { expect: [404] });
  const { definition: wanted } = readDefinition(body);
  const there = answer.status === 404 ? undefined : readDefinition(answer.json()).definition;
  const lines = lineDiff(
    there ? textOf(comparable(there, wanted)) : '',
    textOf(there ? filled(wanted, there) : wanted),
  );
  return { service: name, cluster: cluster.id, isNew: there === undefined, lines };
}

/** What an update leaves as it is, if the file does not say otherwise. */
function filled(wanted: Definition, there: Definition): Definition {
  return {
    ...wanted,
    cluster_id: wanted.cluster_id || there.cluster_id,
    vo: wanted.vo || there.vo,
    ...(wanted.federation === undefined && there.federation && { federation: there.federation }),
  };
}

/** A refresh token that the service was given at its creation is not in the file, and is no difference. */
function comparable(there: Definition, wanted: Definition): Definition {
  const { refresh_token: _, ...secrets } = there.environment.secrets;
  if (!there.federation || 'refresh_token' in wanted.environment.secrets) return there;
  return { ...there, environment: { ...there.environment, secrets } };
}

/** As answers have it, without what is the manager's to say. */
function textOf(definition: Definition): string {
  const managers = { token: '', owner: '', bucket_list: [], volume_status: { enabled: false } };
  const whole = encode(ServiceSchema, { ...definition, ...managers }) as Record<string, unknown>;
  return asYaml(Object.fromEntries(Object.entries(whole).filter(([key]) => !(key in managers))));
}
