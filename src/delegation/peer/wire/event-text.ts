import { type Field, isObject, oneOf, optional } from '../../../base/fields.ts';

/** An event within JSON: any bytes, and the same bytes again on the other side (F7). */
export interface WireEvent {
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
export function writeEvent(event: Uint8Array): WireEvent {
  const text = textOf(event);
  const limit = Math.max(base64Length(event.length), READABLE);
  if (text !== undefined && Buffer.byteLength(JSON.stringify(text)) <= limit) return { event: text };
  return { event: Buffer.from(event.buffer, event.byteOffset, event.length).toString('base64'), encoding: 'base64' };
}

export const eventFields: { readonly event: Field<string>; readonly encoding: Field<'base64'> } = {
  event: { is: 'text', read: (raw) => (typeof raw === 'string' && raw.isWellFormed() ? raw : undefined) },
  encoding: optional(oneOf('base64')),
};

/** Undefined for what claims to be base64 and is not. */
export function bytesOf({ event, encoding }: WireEvent): Uint8Array | undefined {
  if (encoding === undefined) return Buffer.from(event);
  const bytes = Buffer.from(event, 'base64');
  return bytes.toString('base64') === event ? bytes : undefined;
}

/**
 * The form in which managers written in Go and plain endpoints take an event (contract §6.5): one that has it already is
 * not wrapped again. They know no encoding: what is no text is given as base64.
 */
export function wrapEvent(event: Uint8Array): string {
  const text = textOf(event) ?? Buffer.from(event).toString('base64');
  const given = jsonIn(text);
  const isWrapped = typeof given?.['storage_provider'] === 'string' && typeof given['event'] === 'string';
  const { storage_provider, event: inner } = isWrapped ? given : { storage_provider: 'default', event: text };
  return JSON.stringify({ storage_provider, event: inner });
}

const base64Length = (bytes: number) => Math.ceil(bytes / 3) * 4;

/** Undefined for what is no text. A mark of the byte order belongs to it. */
function textOf(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

function jsonIn(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
