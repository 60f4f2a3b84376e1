import { hash } from 'node:crypto';
import {
  assignOutputs,
  type JobRecord,
  type ManifestFile,
  MOST_MANIFEST_BYTES,
  readManifest,
  StoreError,
} from '../../cluster/index.ts';
import { OWN_STORE, outputPlaces } from '../../jobs/index.ts';
import type { Service } from '../../service/index.ts';
import { carryElsewhere } from './carry-elsewhere.ts';
import { checkPlaces } from './check-places.ts';
import type { CommitDeps } from './commit-deps.ts';
import { OutputFailed } from './output-failed.ts';
import { placeHere } from './place-here.ts';
import { type StagingArea, stagingArea } from './staging-area.ts';

export interface CommitOrder {
  /** As it is defined here, at the origin. */
  readonly service: Service;
  /** Its epoch is the one whose attempt is committed. */
  readonly record: Pick<JobRecord, 'service' | 'id' | 'principal' | 'epoch'>;
  /** SHA-256 of the manifest, as the attempt has reported it. */
  readonly manifest: string;
  /** Of the file that was the input, for isolation. */
  readonly eventBucket?: string;
}

export type CommitResult =
  /** How many objects are at their places, and what was left out, a sentence each. */
  | { readonly outcome: 'committed'; readonly objects: number; readonly notes: readonly string[] }
  | { readonly outcome: 'failed'; readonly reason: 'OutputFailed'; readonly message: string };

/**
 * Brings what another cluster has made for a job to its final places, by the rules that hold for a job that runs here
 * (design §9). Done again after a crash at any point it goes on, and writes nothing twice. What it throws may go better
 * another time; what it answers is final.
 */
export async function commit(order: CommitOrder, deps: CommitDeps): Promise<CommitResult> {
  const { service, record, eventBucket } = order;
  const area = stagingArea(record, record.epoch, deps.objects);
  const mark = `${record.id}/${record.epoch}`;
  try {
    const staged = await readStaged(order.manifest, area, deps);
    const { files, notes } = assignOutputs(
      staged.map(({ name, size }) => ({ name, bytes: size })),
      outputPlaces(service, eventBucket),
    );
    const here = files.filter(({ to }) => to.store === OWN_STORE);
    const elsewhere = files.filter(({ to }) => to.store !== OWN_STORE);
    await checkPlaces(here, service, record, deps);

    const commission = {
      area,
      mark,
      principal: record.principal,
      eTags: new Map(staged.map(({ name, etag }) => [name, etag])),
    };
    // First what is more likely to fail: a job that fails shall have woken as few others as can be.
    await carryElsewhere(elsewhere, commission, service, deps);
    await placeHere(here, commission, deps);
    return { outcome: 'committed', objects: files.length, notes };
  } catch (error) {
    if (error instanceof OutputFailed) return { outcome: 'failed', reason: 'OutputFailed', message: error.message };
    throw error;
  }
}

/** What the attempt has reported, and nothing else: others may have its keys. */
async function readStaged(
  digest: string,
  { bucket, manifest }: StagingArea,
  { objects }: Pick<CommitDeps, 'objects'>,
): Promise<readonly ManifestFile[]> {
  const bytes = await objects.read(bucket, manifest, MOST_MANIFEST_BYTES).catch((error: unknown) => {
    if (error instanceof StoreError && error.code === 'too-large') throw refused(error.message);
    throw error;
  });
  if (!bytes) throw refused('it is not there');
  if (hash('sha256', bytes) !== digest) throw refused('it is not the one that was reported');
  const files = readManifest(bytes);
  if (typeof files === 'string') throw refused(files);
  return files;
}

const refused = (why: string) =>
  new OutputFailed(`the list of the outputs that the other cluster left cannot be used: ${why}`);
