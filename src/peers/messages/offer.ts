import {
  type Field,
  fields,
  flagField,
  isObject,
  nested,
  oneOfField,
  optional,
  type Read,
  textField,
  urlField,
} from '../../lib/fields.ts';
import type { JobKey } from '../../model/job/index.ts';
import { clusterIdField, serviceNameField } from '../../model/service/index.ts';
import type { AttemptKey, ForwardedJob, Offer } from '../delegation-ports.ts';

/** Names of jobs stand in paths, in headers and in names of pods. */
export const jobId = textField('the id of a job', /^[a-z0-9]([a-z0-9-]{0,98}[a-z0-9])?$/);

export const epoch: Field<number> = {
  is: 'a whole number from 1 on',
  read: (raw) => (Number.isSafeInteger(raw) && Number(raw) >= 1 ? Number(raw) : undefined),
};

export const job: Field<JobKey> = {
  is: '<service>/<id of the job>',
  read: (raw) => {
    const [service, id, ...more] = typeof raw === 'string' ? raw.split('/') : [];
    if (more.length > 0 || serviceNameField.read(service) === undefined || jobId.read(id) === undefined)
      return undefined;
    return { service: String(service), id: String(id) };
  },
};

export const writeJob = ({ service, id }: JobKey) => `${service}/${id}`;

/** The query of a request for a permit. */
export const writeAttempt = ({ job: key, epoch: at }: AttemptKey) => `job=${writeJob(key)}&epoch=${at}`;

const readWireAttempt = fields<AttemptKey>({ job, epoch: { ...epoch, read: (raw) => epoch.read(parseNumber(raw)) } });

/** From the parameters of a query, or of a path. */
export const readAttempt = (raw: unknown): Read<AttemptKey> => readWireAttempt(raw);

const parseNumber = (raw: unknown) =>
  typeof raw === 'string' && /^[1-9]\d{0,15}$/.test(raw) ? Number(raw) : undefined;

/** Why something was not done, for programs. */
export const readCode = fields<{ readonly code: string }>({ code: textField('a code', /^[a-z-]{1,64}$/) });

/** An event within JSON: any bytes, and the same bytes again on the other side (F7). */
interface WireEvent {
  readonly event: string;
  /** Absent: the event is text. */
  readonly encoding?: 'base64';
}

/** As JSON of up to so many bytes text stays text, so that people can read it in a trace. */
const READABLE = 64 * 1024;

/** What stands around an event. */
const ENVELOPE = 4 * 1024;

/** The longest body that holds an event of so many bytes. */
export const longestBody = (eventBytes: number) => Math.max(base64Length(eventBytes), READABLE) + ENVELOPE;

/** Text as it is; what is no text as base64, and so what gets longer as text: half of it may be quotation marks. */
function writeEvent(event: Uint8Array): WireEvent {
  const readable = decodeText(event);
  const limit = Math.max(base64Length(event.length), READABLE);
  if (readable !== undefined && Buffer.byteLength(JSON.stringify(readable)) <= limit) return { event: readable };
  return { event: Buffer.from(event.buffer, event.byteOffset, event.length).toString('base64'), encoding: 'base64' };
}

const eventFields: { readonly event: Field<string>; readonly encoding: Field<'base64'> } = {
  event: { is: 'text', read: (raw) => (typeof raw === 'string' && raw.isWellFormed() ? raw : undefined) },
  encoding: optional(oneOfField('base64')),
};

/** Undefined for what claims to be base64 and is not. */
function decodeEvent({ event, encoding }: WireEvent): Uint8Array | undefined {
  if (encoding === undefined) return Buffer.from(event);
  const bytes = Buffer.from(event, 'base64');
  return bytes.toString('base64') === event ? bytes : undefined;
}

/**
 * The form in which managers written in Go and plain endpoints take an event
 * (docs/go-manager.md#federation-and-delegation): one that has it already is not wrapped again. They know no encoding:
 * what is no text is given as base64.
 */
export function wrapEvent(event: Uint8Array): string {
  const given = decodeText(event) ?? Buffer.from(event).toString('base64');
  const body = parseJsonObject(given);
  const isWrapped = typeof body?.['storage_provider'] === 'string' && typeof body['event'] === 'string';
  const { storage_provider, event: inner } = isWrapped ? body : { storage_provider: 'default', event: given };
  return JSON.stringify({ storage_provider, event: inner });
}

const base64Length = (bytes: number) => Math.ceil(bytes / 3) * 4;

/** Undefined for what is no text. A mark of the byte order belongs to it. */
function decodeText(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

function parseJsonObject(raw: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(raw);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** W3C Trace Context, as far as it is passed on. */
const TRACE = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;

export const parseTrace = (header: string | undefined) => (header && TRACE.test(header) ? { trace: header } : {});

interface WireOffer {
  readonly job: JobKey;
  readonly epoch: number;
  readonly trigger: Offer['trigger'];
  readonly pinned: boolean;
  readonly from: string;
  readonly encoding?: 'base64';
  readonly queue?: boolean;
}

const readWireOffer = fields<{ readonly event: string; readonly offer: WireOffer }>({
  event: eventFields.event,
  offer: nested(
    'an object with job, epoch, trigger, pinned and from',
    fields<WireOffer>({
      job,
      epoch,
      trigger: oneOfField('storage', 'job', 'run'),
      pinned: flagField,
      from: clusterIdField,
      encoding: eventFields.encoding,
      queue: optional(flagField),
    }),
  ),
});

/**
 * The body of an offer: the event as others wrap it (docs/go-manager.md#federation-and-delegation), and beside it what
 * is ours.
 */
export function writeOffer({ job: key, epoch: at, trigger, pinned, from, event: bytes, queue }: Offer): string {
  const { event, encoding } = writeEvent(bytes);
  const more = { ...(encoding && { encoding }), ...(queue && { queue }) };
  const offer = { job: writeJob(key), epoch: at, trigger, pinned, from, ...more };
  return JSON.stringify({ storage_provider: 'default', event, offer });
}

/** All of an offer that its body says; the rest is in the path. */
export function readOffer(raw: unknown): Read<Omit<Offer, 'service' | 'trace'>> {
  const read = readWireOffer(raw);
  if ('problems' in read) return read;
  const { encoding, ...offer } = read.value.offer;
  return withEvent({ event: read.value.event, ...(encoding && { encoding }) }, offer);
}

interface WireOpened extends WireEvent {
  readonly id: string;
  readonly invoker: string;
  readonly issuer?: string;
}

/** Uids of issuers are long, and may be anything that can be printed. */
const invoker = textField('who called, in up to 256 characters', /^\P{C}{0,256}$/u);

const readWireOpened = fields<WireOpened>({ id: jobId, invoker, issuer: optional(urlField), ...eventFields });

export function writeOpened({ job: { id }, event, invoker: who, issuer }: ForwardedJob): string {
  return JSON.stringify({ id, ...writeEvent(event), invoker: who, ...(issuer !== undefined && { issuer }) });
}

export function readOpened(raw: unknown): Read<Omit<ForwardedJob, 'job'> & { readonly id: string }> {
  const read = readWireOpened(raw);
  if ('problems' in read) return read;
  const { id, invoker: who, issuer, ...event } = read.value;
  return withEvent(event, { id, invoker: who, ...(issuer !== undefined && { issuer }) });
}

function withEvent<T extends object>(wire: WireEvent, rest: T): Read<T & { readonly event: Uint8Array }> {
  const event = decodeEvent(wire);
  return event ? { value: { ...rest, event } } : { problems: ['event is not base64, as its encoding says'] };
}

/** The answer to an offer that was taken. */
export const readTaken = fields<{ readonly attempt: string }>({ attempt: jobId });
