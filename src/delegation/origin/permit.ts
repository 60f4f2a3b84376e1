import { signatureErrors } from '../../federation/index.ts';
import { jobKeyText, OWN_STORE, type ReadableFile, readableFile, readEvent } from '../../jobs/index.ts';
import type { JobKey, JobRecord } from '../../model/job/index.ts';
import type { Service } from '../../model/service/index.ts';
import { type AttemptKey, DelegationError, type Permit, recordRequest } from '../../peers/index.ts';
import type { KeyScope, ObjectStore } from '../../ports/index.ts';
import { type OriginDeps, placeInRecord, type Requester } from './origin.ts';
import { changeForMember, fencedError, findRequestedJob, isCurrentAttempt } from './report.ts';
import { STAGING_KEY_SECONDS, stagingArea } from './staging-area.ts';
import { toDelegated } from './transitions.ts';

interface PermitDeps extends Pick<OriginDeps, 'store' | 'objects' | 'self' | 'lease' | 'clock' | 'meters'> {
  /** Called with the record after it was changed. */
  readonly onChanged: (record: JobRecord) => void;
}

/**
 * Permits a member to run the attempt that it was offered, if that is still the current one. A repeated request renews
 * the lease; a replayed request is rejected by every manager of this cluster. The keys read the one object that is the
 * input, if the job may read it, and write below the attempt's own part of staging: they never reach the results of
 * another attempt.
 */
export async function issuePermit(attempt: AttemptKey, asker: Requester, deps: PermitDeps): Promise<Permit> {
  const { store, clock, self, lease } = deps;
  const record = await findRequestedJob(attempt, asker, deps);
  const event = await store.event(attempt.job);
  const input = event && (await findInput(record, asker.service, event, deps.objects));
  if (input && input.store !== OWN_STORE) {
    throw new DelegationError('input-unreadable', `the keys of ${input.store} stay at the origin: the job runs there`);
  }
  const word = {
    at: clock.now(),
    reason: 'Permitted',
    message: `permit issued to ${asker.member}`,
    place: placeInRecord(asker.member),
  };
  const written = await changeForMember(
    attempt.job,
    store,
    (job) => {
      const { state, placement } = job;
      const counts = (state === 'offering' || state === 'delegated') && isCurrentAttempt(job, attempt, asker);
      if (!counts || !placement) return undefined;
      const asked = recordRequest(placement.asked, asker.asking);
      // Without this check, a recorded request would obtain keys.
      if (!asked) throw signatureErrors.repeated();
      return toDelegated(job, placement, asked, word);
    },
    record,
  );
  if (!written) throw fencedError(attempt, deps);
  deps.onChanged(written);

  const area = stagingArea(attempt.job, attempt.epoch, deps.objects);
  const below = [{ bucket: area.bucket, prefix: area.prefix }];
  const object = input && { bucket: input.bucket, key: input.key };
  const scope = { read: object ? [object] : [], readUnder: below, write: below };
  const keys = await issueFor(attempt.job, scope, record.principal, deps.objects);
  return {
    store: {
      ...self.store,
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

/** Issues keys for the cluster that runs the job. */
const issueFor = (job: JobKey, scope: KeyScope, onBehalfOf: string, objects: Pick<ObjectStore, 'issue'>) =>
  objects.issue(scope, STAGING_KEY_SECONDS, onBehalfOf, { purpose: purposeOf(job) });

/**
 * Revokes all keys that other clusters got for a job, from whichever manager of this cluster, if the store can revoke
 * keys.
 */
export const revokeKeys = (job: JobKey, objects: Pick<ObjectStore, 'revokeFor'>): Promise<void> =>
  objects.revokeFor(purposeOf(job));

const purposeOf = (job: JobKey) => `delegated/${jobKeyText(job)}`;

/**
 * The file that is the input of a job, if the job may read it. Undefined if the event itself is the input, or if the
 * script fetches the input.
 */
export async function findInput(
  record: JobRecord,
  service: Service,
  event: Uint8Array,
  objects: Pick<OriginDeps['objects'], 'bucket'>,
): Promise<ReadableFile | undefined> {
  const { file } = readEvent(event);
  return file && !service.definition.file_stage_in ? readableFile(file, record, service, objects) : undefined;
}
