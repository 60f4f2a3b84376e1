import { type PodResult, readResult, writeResult } from '../result.ts';

/** What a pod tells the manager while it answers a call, a line of JSON each. An empty line says that it is still there. */
export type CallFrame =
  /** The first one: which pod it is. Nothing has been begun before it was sent. */
  | { readonly pod: string }
  | { readonly startedAt: number }
  | { readonly uploading: true }
  /** What the script printed, in base64; each line begins with its time, see `stamped-log.ts`. */
  | { readonly log: string }
  /** The last one. `kept`: all that was printed is where the log was to be put. */
  | { readonly end: PodResult; readonly cause?: EndCause; readonly kept?: true };

/** More than any of them has: a block of the log, or an end with all its notices. Whoever sends more is no program of ours. */
export const LARGEST_FRAME = 8 * 1024 * 1024;

/** Why the script did not end by itself. `died`: its container did. */
export type EndCause = 'timeout' | 'died';

export function writeFrame(frame: CallFrame): string {
  return `${JSON.stringify('end' in frame ? { ...frame, end: writeResult(frame.end) } : frame)}\n`;
}

/** Undefined for an empty line, and for what is no frame: it comes from a pod. */
export function readFrame(line: string): CallFrame | undefined {
  if (line.trim() === '') return undefined;
  let raw: Readonly<Record<string, unknown>> | null;
  try {
    raw = JSON.parse(line);
  } catch {
    return undefined;
  }
  const { pod, startedAt, uploading, log, end, cause, kept } = raw ?? {};
  if (typeof pod === 'string') return { pod };
  if (typeof startedAt === 'number' && Number.isSafeInteger(startedAt)) return { startedAt };
  if (uploading === true) return { uploading };
  if (typeof log === 'string') return { log };
  const result = typeof end === 'string' ? readResult(end) : undefined;
  const because = cause === 'timeout' || cause === 'died' ? cause : undefined;
  return result && { end: result, ...(because && { cause: because }), ...(kept === true && { kept }) };
}
