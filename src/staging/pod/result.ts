import { constants } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import {
  type Field,
  fields,
  flagField,
  oneOfField,
  optional,
  sha256Field,
  textField,
  wholeNumberField,
} from '../../lib/fields.ts';
import type { Ended } from '../../model/job/index.ts';
import type { PodLayout } from './layout.ts';

/**
 * The termination message of our containers. Stage-in writes one only if it fails. The script may have influenced what
 * it says about the script; the kubelet's report about the script's container has priority.
 */
export interface PodResult extends Ended {
  /** The answer for a synchronous caller was uploaded. Otherwise the answer is what the script printed. */
  readonly answered?: boolean;
  /** Notices for users, one sentence each; as many as fit. */
  readonly notices?: readonly string[];
}

/** Kubernetes truncates longer termination messages. */
const MOST_BYTES = 4096;

/** The part for the message, which must fit. As JSON it may take twice as many bytes. */
const MESSAGE_BYTES = 1024;

export function writeResult({ notices = [], ...result }: PodResult): string {
  const short = { ...result, message: truncate(result.message, MESSAGE_BYTES) };
  const kept: string[] = [];
  for (const notice of notices.map((each) => truncate(each, MESSAGE_BYTES))) {
    if (Buffer.byteLength(JSON.stringify({ ...short, notices: [...kept, notice] })) > MOST_BYTES) break;
    kept.push(notice);
  }
  return JSON.stringify({ ...short, ...(kept.length > 0 && { notices: kept }) });
}

/** Undefined if the text is not a result: the container died, or Kubernetes used its log instead. */
export function readResult(json: string): PodResult | undefined {
  try {
    const read = resultFields(JSON.parse(json));
    return 'value' in read ? read.value : undefined;
  } catch {
    return undefined;
  }
}

/** Without O_CREAT: the kubelet provides the file, and elsewhere none should appear. */
const OVER = constants.O_WRONLY | constants.O_TRUNC;

/** Writes the result where Kubernetes reads it. */
export async function writeTermination(result: string, { termination }: Pick<PodLayout, 'termination'>): Promise<void> {
  await writeFile(termination, result, { flag: OVER });
}

export const errorMessage = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Replaces control characters: file names may contain newlines and others. */
export const withoutControls = (sentence: string): string => sentence.replaceAll(/\p{Cc}/gu, ' ').toWellFormed();

/** Truncates at a character boundary. */
function truncate(sentence: string, bytes: number): string {
  const whole = withoutControls(sentence);
  if (Buffer.byteLength(whole) <= bytes) return whole;
  const room = Buffer.from(whole).subarray(0, bytes - Buffer.byteLength('…'));
  return `${new TextDecoder().decode(room, { stream: true })}…`;
}

const sentence = textField('text', /^/);
const notices: Field<readonly string[]> = {
  is: 'a list of sentences',
  read: (raw) => (Array.isArray(raw) && raw.every((each) => typeof each === 'string') ? raw : undefined),
};

const resultFields = fields<PodResult>({
  phase: oneOfField('ended'),
  outcome: oneOfField('succeeded', 'failed', 'stopped'),
  reason: oneOfField('Completed', 'ScriptFailed', 'InputFailed', 'OutputFailed', 'StartFailed', 'Lost', 'Stopped'),
  message: sentence,
  startedAt: optional(wholeNumberField),
  finishedAt: wholeNumberField,
  exitCode: optional(wholeNumberField),
  manifest: optional(sha256Field),
  answered: optional(flagField),
  notices: optional(notices),
});
