import { eventJobName, type NewJob, readStorageEvents, type StorageEvent } from '../model/job/index.ts';
import { inputFolders, type Service } from '../model/service/index.ts';

/** The event that caused a job, as its script sees it (docs/go-manager.md#events-and-scripts). */
export interface JobEvent {
  /** The file that the event names. `readableFile` decides whether the job may read it. */
  readonly file?: NamedFile;
  /** The content of the input file if the event names no file that the job may read: then the event is data. */
  readonly input: Uint8Array;
  /** `EVENT`: the event itself, or the inner event of a forwarded storage event. */
  readonly event: Uint8Array;
  /** `CONT_VAR_<name>` for each parameter of the query that an API gateway passed on. */
  readonly variables: Readonly<Record<string, string>>;
}

export type NamedFile =
  | {
      readonly type: 'minio' | 's3';
      readonly bucket: string;
      readonly key: string;
      readonly time: string;
      /** The id of the provider that contains the file, as the sender of a forwarded event names it. */
      readonly provider?: string;
    }
  /** dCache names a file below the path of the input `webdav.dcache`. */
  | { readonly type: 'dcache'; readonly name: string };

/** Deeper than events are ever nested by forwarding. */
const MAX_DEPTH = 4;

/**
 * Reads any bytes as an event. Bytes that are not exactly one of the known forms are data, which reaches the script
 * unchanged: a user's own `{"event": 7}` is not an error (F8).
 */
export function readEvent(bytes: Uint8Array): JobEvent {
  return read(bytes, {}, MAX_DEPTH);
}

function read(bytes: Uint8Array, variables: Record<string, string>, depth: number): JobEvent {
  const json = parseJson(bytes);
  if (json === undefined) return { input: fromBase64(bytes) ?? bytes, event: bytes, variables };
  const data: JobEvent = { input: bytes, event: bytes, variables };
  if (!isObject(json) || depth === 0) return data;

  if (typeof json['httpMethod'] === 'string') {
    const query = { ...variables, ...queryVariables(json['queryStringParameters']) };
    const body = json['body'];
    if (typeof body !== 'string') return { ...data, variables: query };
    const inner = json['isBase64Encoded'] === true ? Buffer.from(body, 'base64') : Buffer.from(body);
    return { ...read(inner, query, depth - 1), event: bytes };
  }
  const dcache = dcacheFile(json);
  if (dcache) return { ...data, file: dcache };
  return delegated(json, variables, depth) ?? { ...data, ...storageFile(json) };
}

/** `{"event": "<the event>", "storage_provider": "<id>"}`, and only if a storage event is inside. */
function delegated(
  json: Record<string, unknown>,
  variables: Record<string, string>,
  depth: number,
): JobEvent | undefined {
  const { event, storage_provider: provider } = json;
  if (typeof event !== 'string' || (provider !== undefined && typeof provider !== 'string')) return undefined;
  const inner = read(Buffer.from(event), variables, depth - 1);
  if (!inner.file || inner.file.type === 'dcache') return undefined;
  return { ...inner, file: { ...inner.file, ...(provider !== undefined && { provider }) } };
}

function storageFile(json: Record<string, unknown>): { file?: NamedFile } {
  const [record] = Array.isArray(json['Records']) ? json['Records'] : [];
  const [event] = readStorageEvents({ Records: [record] });
  if (!event || !isObject(record)) return {};
  const type = record['eventSource'] === 'minio:s3' ? 'minio' : 's3';
  const time = record['eventTime'];
  return { file: { type, bucket: event.bucket, key: event.key, time: typeof time === 'string' ? time : '' } };
}

function dcacheFile({ event, subscription }: Record<string, unknown>): NamedFile | undefined {
  if (!isObject(event) || subscription === undefined) return undefined;
  const { name } = event;
  return typeof name === 'string' && name !== '' ? { type: 'dcache', name } : undefined;
}

function queryVariables(parameters: unknown): Record<string, string> {
  if (!isObject(parameters)) return {};
  const usable = Object.entries(parameters).filter(
    (entry): entry is [string, string] =>
      /^[A-Za-z0-9_]+$/.test(entry[0]) && typeof entry[1] === 'string' && !entry[1].includes('\0'),
  );
  return Object.fromEntries(usable.map(([name, value]) => [`CONT_VAR_${name}`, value]));
}

/** Clients send files as base64, with or without line breaks. */
function fromBase64(bytes: Uint8Array): Uint8Array | undefined {
  const text = Buffer.from(bytes)
    .toString('latin1')
    .replace(/[\r\n]+/g, '');
  if (text === '' || text.length % 4 !== 0 || !/^[A-Za-z0-9+/]+={0,2}$/.test(text)) return undefined;
  return Buffer.from(text, 'base64');
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The fields of a job that follow from its storage event. */
type EventJob = Pick<NewJob, 'id' | 'object'>;

/**
 * The job of an event for this service. The same event always gives the same job
 * (docs/jobs.md#no-event-is-lost-none-runs-twice).
 */
export function jobForEvent(event: StorageEvent, { uid, definition: { name } }: Service): EventJob {
  const { bucket, key, modifiedAt } = event;
  return {
    id: eventJobName({ uid, name }, event),
    object: { bucket, key, ...(modifiedAt !== undefined && { modifiedAt }) },
  };
}

/** Whether the object is under an input of the service. */
export function isInput({ bucket, key }: Pick<StorageEvent, 'bucket' | 'key'>, service: Service): boolean {
  return inputFolders(service).some((input) => input.bucket === bucket && key.startsWith(`${input.folder}/`));
}

/** The same for bytes that may be a storage event; undefined if they are not one event for an input of the service. */
export function jobForBytes(bytes: Uint8Array, service: Service): EventJob | undefined {
  const events = readStorageEvents(parseJson(bytes));
  const [event] = events;
  return event && events.length === 1 && isInput(event, service) ? jobForEvent(event, service) : undefined;
}

/** Undefined if the bytes are not JSON. */
function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    return undefined;
  }
}
