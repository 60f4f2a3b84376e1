import type { ObjectRecord } from './object.ts';

/** Which attempt of a job has written an object. */
export const MARK = 'x-amz-meta-oscar-attempt';

type Marked = Pick<ObjectRecord, 'headers' | 'eTag' | 'size'>;

/**
 * Has the same attempt written the same there before? Then its answer was lost, and it asks again: whoever waits for the
 * file has heard of it, and would run another job for nothing.
 */
export function isRepeated(object: Marked, existing: Marked): boolean {
  const mark = object.headers[MARK];
  const isMarked = mark !== undefined && mark === existing.headers[MARK];
  return isMarked && object.eTag === existing.eTag && object.size === existing.size;
}
