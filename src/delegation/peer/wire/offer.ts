import { fields, flag, nested, oneOf, type Read, text } from '../../../base/fields.ts';
import type { JobKey } from '../../../cluster/index.ts';
import { clusterId } from '../../../service/fields.ts';
import type { EnteredJob, Offer } from '../../terms.ts';
import { bytesOf, eventFields, type WireEvent, writeEvent } from './event-text.ts';
import { epoch, job, jobId, writeJob } from './names.ts';

/** W3C Trace Context, as far as it is passed on. */
const TRACE = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;

export const traceIn = (header: string | undefined) => (header && TRACE.test(header) ? { trace: header } : {});

interface WireOffer {
  readonly job: JobKey;
  readonly epoch: number;
  readonly trigger: Offer['trigger'];
  readonly pinned: boolean;
  readonly from: string;
  readonly encoding?: 'base64';
}

const readWireOffer = fields<{ readonly event: string; readonly offer: WireOffer }>({
  event: eventFields.event,
  offer: nested(
    'an object with job, epoch, trigger, pinned and from',
    fields<WireOffer>({
      job,
      epoch,
      trigger: oneOf('storage', 'job'),
      pinned: flag,
      from: clusterId,
      encoding: eventFields.encoding,
    }),
  ),
});

/** The body of an offer: the event as others wrap it (contract §6.5), and beside it what is ours. */
export function writeOffer({ job: key, epoch: at, trigger, pinned, from, event: bytes }: Offer): string {
  const { event, encoding } = writeEvent(bytes);
  const offer = { job: writeJob(key), epoch: at, trigger, pinned, from, ...(encoding && { encoding }) };
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
}

/** Uids of issuers are long, and may be anything that can be printed. */
const invoker = text('who called, in up to 256 characters', /^\P{C}{0,256}$/u);

const readWireOpened = fields<WireOpened>({ id: jobId, invoker, ...eventFields });

export function writeOpened({ job: { id }, event, invoker: who }: EnteredJob): string {
  return JSON.stringify({ id, ...writeEvent(event), invoker: who });
}

export function readOpened(
  raw: unknown,
): Read<{ readonly id: string; readonly invoker: string; readonly event: Uint8Array }> {
  const read = readWireOpened(raw);
  if ('problems' in read) return read;
  const { id, invoker: who, ...event } = read.value;
  return withEvent(event, { id, invoker: who });
}

function withEvent<T extends object>(wire: WireEvent, rest: T): Read<T & { readonly event: Uint8Array }> {
  const event = bytesOf(wire);
  return event ? { value: { ...rest, event } } : { problems: ['event is not base64, as its encoding says'] };
}

/** The answer to an offer that was taken. */
export const readTaken = fields<{ readonly attempt: string }>({ attempt: jobId });
