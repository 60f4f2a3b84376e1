import type { Cursor } from '../../lib/version.ts';
import { isFinal, type JobKey, type JobRecord } from '../../model/job/index.ts';
import type { ObjectStore } from '../../ports/index.ts';
import type { OriginDeps } from './origin.ts';

/** Where one attempt of a job leaves what it made, in the store of the origin. */
export interface StagingArea {
  readonly bucket: string;
  /** The keys of the attempt may write and read below it, and nowhere else. */
  readonly prefix: string;
  /** Each file is here, under its name relative to the output directory. Beside the manifest, whatever a file is called. */
  readonly files: string;
  /** The key of the list of them. */
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

/** Removes what all attempts of a job have left. Only when it has ended; keys that still work may write again. */
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

/** Whose keys have expired since cannot write again: what an attempt left after it was swept is gone by the second time. */
const SWEEP_EVERY_MS = STAGING_KEY_SECONDS * 1000;

type SweepDeps = Pick<OriginDeps, 'store' | 'objects'>;

/**
 * Removes from the staging area what no attempt needs any more: of jobs that have ended or are gone, and of attempts that
 * lost their job to another. Resolves to how many areas there were.
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

/** What the manager keeps there for itself: it goes with the records that name it. */
const isShelved = (key: string) => key.startsWith('.');

const needs = (record: JobRecord | undefined, epoch: number) =>
  record !== undefined && !isFinal(record.state) && epoch >= record.epoch;

/** Sweeps now and from time to time. */
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
