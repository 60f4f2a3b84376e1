import type { JobRecord } from '../../../cluster/index.ts';
import { refusals, withAsking } from '../../../federation/index.ts';
import { OWN_STORE } from '../../../jobs/index.ts';
import { stagingArea } from '../../commit/index.ts';
import { DelegationError } from '../../errors.ts';
import type { AttemptKey, Permit } from '../../terms.ts';
import { permitted } from '../moves.ts';
import { type Asker, type OriginDeps, placeOf } from '../origin.ts';
import { changeAsTold, fenced, isItsAttempt, spokenOf } from './current.ts';
import { inputOf } from './input.ts';
import { issueFor } from './issued-keys.ts';

export interface PermitDeps extends Pick<OriginDeps, 'store' | 'objects' | 'here' | 'lease' | 'clock' | 'meters'> {
  /** Told of the record that says so. */
  readonly noted: (record: JobRecord) => void;
}

/**
 * Lets a member run the attempt that it was offered, if that is the current one still; asked again, it is the renewal of its
 * lease; the very same request again gets nothing, at no manager of this cluster. The keys read the one object that is the
 * input, if the job may have it, and write below the attempt's own part of the staging area: whatever becomes of them, no
 * result of anybody is within their reach.
 */
export async function givePermit(attempt: AttemptKey, asker: Asker, deps: PermitDeps): Promise<Permit> {
  const { store, clock, here, lease } = deps;
  const record = await spokenOf(attempt, asker, deps);
  const event = await store.event(attempt.job);
  const input = event && (await inputOf(record, asker.service, event, deps.objects));
  if (input && input.store !== OWN_STORE) {
    throw new DelegationError('input-unreadable', `the keys of ${input.store} stay at the origin: the job runs there`);
  }
  const word = {
    at: clock.now(),
    reason: 'Permitted',
    message: `${asker.member} was let run it`,
    place: placeOf(asker.member),
  };
  const written = await changeAsTold(
    attempt.job,
    store,
    (job) => {
      const { state, placement } = job;
      const counts = (state === 'offering' || state === 'delegated') && isItsAttempt(job, attempt, asker);
      if (!counts || !placement) return undefined;
      const asked = withAsking(placement.asked, asker.asking);
      // What somebody recorded would get them keys.
      if (!asked) throw refusals.repeated();
      return permitted(job, placement, asked, word);
    },
    record,
  );
  if (!written) throw fenced(attempt, deps);
  deps.noted(written);

  const area = stagingArea(attempt.job, attempt.epoch, deps.objects);
  const below = [{ bucket: area.bucket, prefix: area.prefix }];
  const object = input && { bucket: input.bucket, key: input.key };
  const scope = { read: object ? [object] : [], readUnder: below, write: below };
  const keys = await issueFor(attempt.job, scope, record.principal, deps.objects);
  return {
    store: {
      ...here.store,
      accessKey: keys.accessKey,
      secretKey: keys.secretKey,
      sessionToken: keys.sessionToken,
      expiresAt: keys.expiresAt.getTime(),
    },
    ...(object && { input: object }),
    staging: { bucket: area.bucket, prefix: area.files, manifest: area.manifest },
    lease: lease.lease,
  };
}
