import type { Speaker } from '../terms.ts';
import type { OriginDeps } from './origin.ts';
import type { Member, WorkingFederation } from './round/members.ts';

/** As whom a member is spoken to about jobs that it has: by its key, or by the owner where it knows no keys. */
export async function speakerTo(
  { speaks, type, as, place }: Member,
  { service }: WorkingFederation,
  { mint }: Pick<OriginDeps, 'mint'>,
): Promise<Speaker> {
  return speaks || type === 'endpoint' || !mint ? as : { ...as, bearer: await mint(service, place) };
}
