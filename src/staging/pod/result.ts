import { constants } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { type Field, fields, flag, oneOf, optional, sha256, text, wholeNumber } from '../../lib/fields.ts';
import type { Ended } from '../../model/job/index.ts';
import type { PodLayout } from './layout.ts';

/**
 * The last words of our containers. Those of stage-in are there only if it failed. What they say of the script, the script
 * may have made them say; what the kubelet says of its container counts more.
 */
export interface PodResult extends Ended {
  /** What a synchronous caller is answered lies where the orders say. Otherwise it is what the script printed. */
  readonly answered?: boolean;
  /** What people should know, a sentence each; as many as there is room for. */
  readonly notices?: readonly string[];
}

/** Kubernetes keeps no more of a container's last words. */
const MOST_BYTES = 4096;

/** Of that, for the one sentence that must be there. As many bytes again may be needed to write it as JSON. */
const MESSAGE_BYTES = 1024;

export function writeResult({ notices = [], ...result }: PodResult): string {
  const short = { ...result, message: cut(result.message, MESSAGE_BYTES) };
  const kept: string[] = [];
  for (const notice of notices.map((each) => cut(each, MESSAGE_BYTES))) {
    if (Buffer.byteLength(JSON.stringify({ ...short, notices: [...kept, notice] })) > MOST_BYTES) break;
    kept.push(notice);
  }
  return JSON.stringify({ ...short, ...(kept.length > 0 && { notices: kept }) });
}

/** Undefined for what is none: the container died, or its last words are its log. */
export function readResult(json: string): PodResult | undefined {
  try {
    const read = resultOf(JSON.parse(json));
    return 'value' in read ? read.value : undefined;
  } catch {
    return undefined;
  }
}

/** Only over what is there, as the kubelet puts it: nobody else is to find such a file on their machine. */
const OVER = constants.O_WRONLY | constants.O_TRUNC;

/** Leaves the result where Kubernetes looks for it. */
export async function leaveResult(result: string, { termination }: Pick<PodLayout, 'termination'>): Promise<void> {
  await writeFile(termination, result, { flag: OVER });
}

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** As one line: names of files may have ends of lines, and worse, in them. */
export const plain = (sentence: string): string => sentence.replaceAll(/\p{Cc}/gu, ' ').toWellFormed();

/** Not in the middle of a character that takes several bytes. */
function cut(sentence: string, bytes: number): string {
  const whole = plain(sentence);
  if (Buffer.byteLength(whole) <= bytes) return whole;
  const room = Buffer.from(whole).subarray(0, bytes - Buffer.byteLength('…'));
  return `${new TextDecoder().decode(room, { stream: true })}…`;
}

const sentence = text('text', /^/);
const notices: Field<readonly string[]> = {
  is: 'a list of sentences',
  read: (raw) => (Array.isArray(raw) && raw.every((each) => typeof each === 'string') ? raw : undefined),
};

const resultOf = fields<PodResult>({
  phase: oneOf('ended'),
  outcome: oneOf('succeeded', 'failed', 'stopped'),
  reason: oneOf('Completed', 'ScriptFailed', 'InputFailed', 'OutputFailed', 'StartFailed', 'Lost', 'Stopped'),
  message: sentence,
  startedAt: optional(wholeNumber),
  finishedAt: wholeNumber,
  exitCode: optional(wholeNumber),
  manifest: optional(sha256),
  answered: optional(flag),
  notices: optional(notices),
});
