import { attemptParts, jobKeyText, NotRun, type PreparedAttempt, readEvent } from '../../jobs/index.ts';
import { isSlash, trimEnd } from '../../lib/trim.ts';
import type { JobRecord, StoreAccess } from '../../model/job/index.ts';
import type { Service } from '../../model/service/index.ts';
import type { Permit } from '../../peers/index.ts';
import { loadSecrets, toSecretsOwner } from '../../services/index.ts';
import { delegationBackoff } from '../backoff.ts';
import { attemptOverReason, ORIGIN_STORE, originStoreAccess } from './origin-contact.ts';
import type { TargetDeps } from './target.ts';

/** How long results are kept for an origin that does not answer (docs/delegation.md#how). */
export const RESULT_KEPT = 24 * 3_600_000;

/**
 * How long the origin's store may be unreachable while its manager answers. With a larger value, a store that rejects
 * permanently delays the end of the job; with a smaller one, a restart of the store loses a run of hours.
 */
const DELIVERY_PATIENCE = 10 * 60_000;

/**
 * Prepares an attempt for an origin. It runs as a job of this service would, but its files are at the origin's store,
 * and its id is the origin's. All results go to staging, whatever outputs the service has: the origin decides about
 * outputs.
 */
export async function prepareDelegated(
  name: string,
  record: JobRecord,
  service: Service,
  eventBytes: Uint8Array,
  deps: TargetDeps,
): Promise<PreparedAttempt> {
  const { taken } = record;
  if (!taken?.files) throw new NotRun('called-off', 'the location of its files is unknown');
  if (record.startedAt === undefined) await checkPermit(name, record, deps);
  const { input, staging } = taken.files;
  const at = { store: ORIGIN_STORE, bucket: staging.bucket };
  const basis = {
    name,
    job: taken.job.id,
    record: { service: record.service, id: record.id },
    service,
    event: readEvent(eventBytes),
    file: input && !service.definition.file_stage_in ? { store: ORIGIN_STORE, ...input } : undefined,
    secrets: (await loadSecrets(toSecretsOwner(service), deps)).environment,
  };
  const attempt = {
    ...attemptParts(basis, deps),
    outputs: [{ ...at, folder: trimEnd(staging.prefix, isSlash), prefix: [], suffix: [] }],
    manifest: { ...at, key: staging.manifest },
    patience: DELIVERY_PATIENCE,
    answer: taken.answer === true,
    stores: () => originStores(record, service, deps),
  };
  return { attempt, release: async () => deps.permits.forget(record) };
}

/**
 * The origin may have fenced the attempt while the job waited. An attempt that has started continues: then the origin
 * decides about its result.
 */
async function checkPermit(name: string, record: JobRecord, deps: TargetDeps): Promise<void> {
  try {
    await deps.permits.current(record);
  } catch (cause) {
    if ((await deps.runner.list()).includes(name)) return;
    const over = attemptOverReason(cause);
    if (over !== undefined) throw new NotRun('called-off', over, { cause });
    const patience = deps.permits.leaseFor(record);
    throw new NotRun('origin-away', 'the origin does not answer', { cause, patience });
  }
}

async function originStores(
  record: JobRecord,
  { federation }: Service,
  deps: TargetDeps,
): Promise<ReadonlyMap<string, StoreAccess>> {
  const { store } = await awaitPermit(record, deps);
  if (federation?.role !== 'worker') throw new Error('the service is no longer a worker');
  return new Map([[ORIGIN_STORE, originStoreAccess(store, federation.origin, deps.stores)]]);
}

/**
 * Gets a permit as soon as the origin answers. A caller that waits here has results to deliver, which are worth waiting
 * for; the capacity of the ended script is released meanwhile.
 */
async function awaitPermit(record: JobRecord, deps: TargetDeps): Promise<Permit> {
  const { now, wait, random, closing, permits, capacity, store } = deps;
  const until = now() + RESULT_KEPT;
  for (let tries = 1; ; tries++) {
    try {
      return await permits.current(record);
    } catch (error) {
      const over = attemptOverReason(error);
      if (over !== undefined) throw new Error(over, { cause: error });
      const job = await store.get(record).catch(() => record);
      if (now() >= until || !job || job.cancelRequested) {
        throw new Error('the origin does not answer', { cause: error });
      }
      // A failure would be recorded as the end of the job. The runner stops too, and the next manager asks again.
      if (closing.aborted) return new Promise(() => {});
    }
    capacity.release(jobKeyText(record));
    await wait(Math.min(delegationBackoff(tries, random), LONGEST_PAUSE), closing);
  }
}

/** A larger value delays cancelling; a smaller one asks a silent origin more often. */
const LONGEST_PAUSE = 10_000;
