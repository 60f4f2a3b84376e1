import {
  type Field,
  fields,
  isObject,
  mapRead,
  oneOfField,
  optional,
  type Read,
  sha256Field,
  textField,
  wholeNumberField,
} from '../../lib/fields.ts';
import type { Report } from '../delegation-ports.ts';
import { readRoom, writeRoom } from './status.ts';

/** Far more than a sentence. The writer cuts it: a long one is no reason not to hear how a job ended. */
const LONGEST_MESSAGE = 1000;

const message: Field<string> = {
  is: `a sentence of up to ${LONGEST_MESSAGE} characters`,
  read: (raw) => (typeof raw === 'string' && raw.length <= LONGEST_MESSAGE && !/\p{Cc}/u.test(raw) ? raw : undefined),
};

const reason = textField('one word', /^\w{1,64}$/);

const exitCode: Field<number> = {
  is: 'a whole number',
  read: (raw) => (Number.isSafeInteger(raw) ? Number(raw) : undefined),
};

interface WireRunning {
  readonly started_at?: number;
  readonly message?: string;
}

interface WireEnding {
  readonly started_at?: number;
  readonly finished_at: number;
  readonly exit_code?: number;
  readonly reason: string;
  readonly message: string;
}

const ENDING = {
  started_at: optional(wholeNumberField),
  finished_at: wholeNumberField,
  exit_code: optional(exitCode),
  reason,
  message,
};

const readRunning = fields<WireRunning>({ started_at: optional(wholeNumberField), message: optional(message) });
const readReleased = fields<{ readonly reason: string; readonly message: string }>({ reason, message });
const readFailed = fields<WireEnding>(ENDING);
const readSucceeded = fields<WireEnding & { readonly manifest: string }>({ ...ENDING, manifest: sha256Field });

const READERS: { readonly [S in Report['state']]: (raw: unknown) => Read<Report> } = {
  running: (raw) => mapRead(readRunning(raw), (said) => ({ state: 'running', ...toRunning(said) })),
  released: (raw) => mapRead(readReleased(raw), (said) => ({ state: 'released', ...said })),
  failed: (raw) => mapRead(readFailed(raw), (said) => ({ state: 'failed', ...toEnding(said) })),
  succeeded: (raw) =>
    mapRead(readSucceeded(raw), ({ manifest, ...said }) => ({ state: 'succeeded', ...toEnding(said), manifest })),
};

const state = oneOfField('running', 'released', 'failed', 'succeeded');

export function readReport(raw: unknown): Read<Report> {
  const said = state.read(isObject(raw) ? raw['state'] : undefined);
  if (!said) return { problems: [`state is not ${state.is}`] };
  return mapRead(READERS[said](raw), (report) => ({ ...report, ...readRoom(raw) }));
}

const toRunning = ({ started_at, message: said }: WireRunning) => ({
  ...(started_at !== undefined && { startedAt: started_at }),
  ...(said !== undefined && { message: said }),
});

const toEnding = ({ started_at, finished_at, exit_code, ...said }: WireEnding) => ({
  ...(started_at !== undefined && { startedAt: started_at }),
  finishedAt: finished_at,
  ...(exit_code !== undefined && { exitCode: exit_code }),
  ...said,
});

export function writeReport(report: Report): string {
  return JSON.stringify({ state: report.state, ...toWire(report), ...writeRoom(report.room) });
}

function toWire(report: Report): object {
  if (report.state === 'released') return { reason: toReason(report.reason), message: toMessage(report.message) };
  const begun = report.startedAt === undefined ? {} : { started_at: Math.round(report.startedAt) };
  if (report.state === 'running') {
    return { ...begun, ...(report.message !== undefined && { message: toMessage(report.message) }) };
  }
  return {
    ...begun,
    finished_at: Math.round(report.finishedAt),
    ...(report.exitCode !== undefined && { exit_code: report.exitCode }),
    reason: toReason(report.reason),
    message: toMessage(report.message),
    ...(report.state === 'succeeded' && { manifest: report.manifest }),
  };
}

const toReason = (said: string) => said.replace(/\W/g, '').slice(0, 64) || 'Unknown';

/** No half of a character at its end, and nothing that would break a line. */
const toMessage = (said: string) =>
  said
    .replace(/\p{Cc}+/gu, ' ')
    .slice(0, LONGEST_MESSAGE)
    .toWellFormed();
