import { S3Error } from '../lib/errors.ts';
import { checkKeyLength } from '../lib/limits.ts';

export type Parameter = readonly [name: string, value: string];

/** The query of a request, decoded, in its original order. */
export class QueryParameters {
  readonly entries: readonly Parameter[];
  readonly #values: ReadonlyMap<string, string>;
  readonly #lowerCase: ReadonlyMap<string, string>;

  constructor(entries: readonly Parameter[]) {
    this.entries = entries;
    // The first of several values counts, so it is set last.
    const reversed = entries.toReversed();
    this.#values = new Map(reversed);
    this.#lowerCase = new Map(reversed.map(([name, value]) => [name.toLowerCase(), value]));
  }

  get(name: string): string | undefined {
    return this.#values.get(name);
  }

  has(name: string): boolean {
    return this.#values.has(name);
  }

  /** Finds a parameter by its name in lower case. */
  getIgnoringCase(name: string): string | undefined {
    return this.#lowerCase.get(name);
  }

  /** The names in lower case, each once. */
  lowerCaseNames(): IterableIterator<string> {
    return this.#lowerCase.keys();
  }
}

/** The bucket, key and query of a request. Path-style only: the first segment is the bucket, the rest is the key. */
export interface RequestTarget {
  /** As received: version 2 signs it like this. */
  readonly rawPath: string;
  /** Decoded, but not normalized: a key may contain any dots and slashes. */
  readonly path: string;
  readonly bucket: string;
  /** Empty for requests about a bucket or about all buckets. */
  readonly key: string;
  readonly query: QueryParameters;
}

export function readTarget(url: string): RequestTarget {
  const start = url.startsWith('/') ? 0 : findPathStart(url);
  const mark = url.indexOf('?', start);
  const rawPath = mark < 0 ? url.slice(start) : url.slice(start, mark);
  const path = decodeComponent(rawPath);
  if (path === undefined || !path.startsWith('/')) {
    throw new S3Error('InvalidURI', 'The path of the request is not percent-encoded UTF-8.');
  }
  const slash = path.indexOf('/', 1);
  const bucket = slash < 0 ? path.slice(1) : path.slice(1, slash);
  const key = slash < 0 ? '' : path.slice(slash + 1);
  if (bucket === '' && key !== '') throw new S3Error('InvalidBucketName');
  checkKeyLength(key);
  return { rawPath, path, bucket, key, query: readQuery(mark < 0 ? '' : url.slice(mark + 1)) };
}

/** Finds the path in the absolute form of RFC 9112 §3.2.2, which proxies send. */
function findPathStart(url: string): number {
  const authority = url.indexOf('://');
  const slash = authority < 0 ? -1 : url.indexOf('/', authority + 3);
  if (slash < 0) throw new S3Error('InvalidURI');
  return slash;
}

function readQuery(text: string): QueryParameters {
  if (text === '') return new QueryParameters([]);
  const entries: Parameter[] = [];
  for (const pair of text.split('&')) {
    if (pair === '') continue;
    const equals = pair.indexOf('=');
    const name = decodeForm(equals < 0 ? pair : pair.slice(0, equals));
    const value = equals < 0 ? '' : decodeForm(pair.slice(equals + 1));
    if (name === undefined || value === undefined) {
      throw new S3Error('InvalidURI', 'The query of the request is not percent-encoded UTF-8.');
    }
    entries.push([name, value]);
  }
  return new QueryParameters(entries);
}

/** MinIO decodes a plus to a space, as in forms, and signs the space. */
function decodeForm(text: string): string | undefined {
  return decodeComponent(text.includes('+') ? text.replaceAll('+', ' ') : text);
}

const UNRESERVED = /^[A-Za-z0-9\-._~]*$/;
const UNRESERVED_PATH = /^[A-Za-z0-9\-._~/]*$/;

/** RFC 3986: encodes everything except unreserved characters, with upper-case hex digits. */
export function encodeComponent(text: string): string {
  if (UNRESERVED.test(text)) return text;
  return encodeURIComponent(text).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
}

/** The same, but slashes stay: for a path that is signed, and for a key in a listing. */
export function encodePath(path: string): string {
  return UNRESERVED_PATH.test(path) ? path : path.split('/').map(encodeComponent).join('/');
}

/** Undefined if the text is not percent-encoded UTF-8. */
export function decodeComponent(text: string): string | undefined {
  if (!text.includes('%')) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
