import type { Cursor } from '../../lib/version.ts';
import { isFinal, type JobKey, type JobRecord } from '../../model/job/index.ts';
import type { ObjectStore } from '../../ports/index.ts';
import type { OriginDeps } from './origin.ts';

/** Where an attempt of a job writes its results, in the store of the origin. */
export interface StagingArea {
  readonly bucket: string;
  /** The keys of the attempt may read and write below this prefix, and nowhere else. */
  readonly prefix: string;
  /**
   * The prefix of the result files; the rest of the key is the name relative to the output directory. The manifest is
   * outside of it, so no file name can collide with it.
   */
  readonly files: string;
  /** The key of the manifest. */
  readonly manifest: string;
}

export function stagingArea(
  job: JobKey,
  epoch: number,
  { stagingBucket }: Pick<ObjectStore, 'stagingBucket'>,
): StagingArea {
  const prefix = `${prefixOf(job)}${epoch}/`;
  return { bucket: stagingBucket, prefix, files: `${prefix}files/`, manifest: `${prefix}manifest.json` };
}

/**
 * Removes the staged files of all attempts of a job. Call it only when the job has ended; a target with valid keys may
 * write again.
 */
export async function sweepStaging(
  job: JobKey,
  objects: Pick<ObjectStore, 'stagingBucket' | 'removeObjects'>,
): Promise<void> {
  await objects.removeObjects(objects.stagingBucket, prefixOf(job));
}

const prefixOf = ({ service, id }: JobKey) => `${service}/${id}/`;

/**
 * How long the keys that a target gets for an attempt are valid, in seconds. A larger value lets a target that lost the attempt
 * write to its part of staging for longer. A smaller value is too short for a single large transfer.
 */
export const STAGING_KEY_SECONDS = 60 * 60;

/** Objects per page of the sweep. */
const PAGE = 1_000;

/**
 * After this interval the keys of ended attempts have expired, so the next sweep removes the last files that they could
 * write.
 */
const SWEEP_EVERY_MS = STAGING_KEY_SECONDS * 1000;

type SweepDeps = Pick<OriginDeps, 'store' | 'objects'>;

/**
 * Removes staged files that no attempt needs: of jobs that have ended or were removed, and of superseded attempts.
 * Resolves to the number of removed areas.
 */
export async function sweepStagingArea({ store, objects }: SweepDeps): Promise<number> {
  const swept = new Set<string>();
  const kept = new Set<string>();
  let cursor: Cursor | undefined;
  do {
    const page = await objects.objects(objects.stagingBucket, { limit: PAGE, ...(cursor !== undefined && { cursor }) });
    for (const { key } of page.items) {
      if (isShelved(key)) continue;
      const [service = '', id = '', epoch = ''] = key.split('/');
      const area = `${service}/${id}/${epoch}/`;
      if (swept.has(area) || kept.has(area)) continue;
      const isNeeded = needs(await store.get({ service, id }), Number(epoch));
      (isNeeded ? kept : swept).add(area);
      if (!isNeeded) await objects.removeObjects(objects.stagingBucket, area);
    }
    cursor = page.next;
  } while (cursor !== undefined);
  return swept.size;
}

/** Objects that the manager keeps there for itself; they are removed with the records that name them. */
const isShelved = (key: string) => key.startsWith('.');

const needs = (record: JobRecord | undefined, epoch: number) =>
  record !== undefined && !isFinal(record.state) && epoch >= record.epoch;

/** Sweeps at start and then periodically. */
export class StagingSweep {
  readonly #deps: SweepDeps & Pick<OriginDeps, 'clock' | 'report'>;
  #undo: (() => void) | undefined;
  #stopped = false;

  constructor(deps: SweepDeps & Pick<OriginDeps, 'clock' | 'report'>) {
    this.#deps = deps;
  }

  start(): void {
    const { clock, report, objects } = this.#deps;
    void sweepStagingArea(this.#deps)
      .catch((problem: unknown) => report(problem, { service: objects.stagingBucket, id: '' }))
      .finally(() => {
        if (!this.#stopped) this.#undo = clock.at(clock.now() + SWEEP_EVERY_MS, () => this.start());
      });
  }

  stop(): void {
    this.#stopped = true;
    this.#undo?.();
  }
}
