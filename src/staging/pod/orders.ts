import {
  type Field,
  fields,
  flag,
  isObject,
  nested,
  oneOf,
  optional,
  type Read,
  text,
  wholeNumber,
} from '../../lib/fields.ts';
import type { Network } from '../../lib/http/index.ts';
import { Secret } from '../../lib/secret.ts';
import type { ObjectAt, S3Access, StageOut, StoreAccess, WebdavAccess } from '../../model/job/index.ts';
import { StagingError } from '../transfers/errors.ts';

/** What the programs in the pod of one attempt have to do: `orders.json`. There is no secret in it, and it never changes. */
export interface PodOrders {
  /** Name of the attempt. */
  readonly attempt: string;
  readonly input: PodInput;
  readonly outputs: readonly StageOut[];
  /** See `Attempt.manifest`. */
  readonly manifest?: ObjectAt;
  /** Put what a synchronous caller is answered to the URL that the stores name. */
  readonly answer: boolean;
  /** See `Attempt.patience`. */
  readonly patience?: number;
  /**
   * Milliseconds for which renewed keys are waited for when a store says that they have expired. A Secret that was changed
   * reaches the pod within some 90 s; whoever changes it may be starting again just then.
   */
  readonly keyPatience?: number;
  /** The operator's networks, where users may have stores that are not public. */
  readonly networks: readonly Network[];
  /**
   * Port at which stage-out answers `GET /` with 503 until the script has ended, and with 200 after that: a readiness
   * probe shows the manager then that the time of the script is over. Absent: nobody asks.
   */
  readonly port?: number;
}

export type PodInput =
  | { readonly kind: 'none' }
  /** The bytes of the file `input` beside the orders, under that file name. */
  | { readonly kind: 'bytes'; readonly name: string }
  /** What is to be got from the URL in the stores, under that file name. */
  | { readonly kind: 'url'; readonly name: string }
  | { readonly kind: 'object'; readonly name: string; readonly from: ObjectAt };

/** What opens the stores: `stores.json`, which is renewed while the pod lives, and read again for each phase. */
export interface PodStores {
  readonly stores: ReadonlyMap<string, StoreAccess>;
  /** Presigned URLs of the manager's own bucket. */
  readonly input?: Secret;
  readonly answer?: Secret;
  /** Is the certificate of those URLs looked at? */
  readonly verify: boolean;
}

export const writeOrders = (orders: PodOrders): string => JSON.stringify(orders);

/** The only place where the keys of an attempt are written down. */
export function writeStores({ stores, input, answer, verify }: PodStores): string {
  return JSON.stringify({
    stores: Object.fromEntries([...stores].map(([id, access]) => [id, revealed(access)])),
    ...(input && { input: input.reveal() }),
    ...(answer && { answer: answer.reveal() }),
    verify,
  });
}

function revealed(access: StoreAccess): Record<string, unknown> {
  // When they end is for whoever renews them: the pod finds it out by itself.
  const entries = Object.entries({ ...access, expiresAt: undefined }).map(([key, value]) => [
    key,
    value instanceof Secret ? value.reveal() : value,
  ]);
  return Object.fromEntries(entries);
}

/** Throws a {@link StagingError} that says what is wrong. */
export const readOrders = (json: string): PodOrders => checked('orders.json', ordersOf(parsed(json)));

/** Throws a {@link StagingError} that says what is wrong. */
export function readStores(json: string): PodStores {
  const { stores, ...rest } = checked('stores.json', storesOf(parsed(json)));
  return { ...rest, stores: new Map(Object.entries(stores)) };
}

const anyText = text('text', /^/);
const secret: Field<Secret> = { is: 'text', read: (raw) => (typeof raw === 'string' ? new Secret(raw) : undefined) };

const fileName: Field<string> = {
  is: 'the name of a file',
  read: (raw) => (typeof raw === 'string' && isFileName(raw) ? raw : undefined),
};

/** It becomes part of a path, and must not lead anywhere else. */
const isFileName = (name: string) =>
  name !== '' && name !== '.' && name !== '..' && !/[/\0]/.test(name) && Buffer.byteLength(name) <= 255;

function listOf<T>(is: string, each: (raw: unknown) => T | undefined): Field<readonly T[]> {
  const read = (raw: unknown) => {
    if (!Array.isArray(raw)) return undefined;
    const values = raw.map(each);
    return values.every((value) => value !== undefined) ? values : undefined;
  };
  return { is, read };
}

const within = <T extends object>(read: (raw: unknown) => Read<T>) => nested('', read).read;

const texts = listOf('a list of texts', anyText.read);
const objectAt = fields<ObjectAt>({ store: anyText, bucket: anyText, key: anyText });
const output = fields<StageOut>({ store: anyText, bucket: anyText, folder: anyText, prefix: texts, suffix: texts });
const network = fields<Network>({ address: anyText, prefix: wholeNumber, family: oneOf('ipv4', 'ipv6') });

const INPUTS: Readonly<Record<PodInput['kind'], (raw: unknown) => Read<PodInput>>> = {
  none: fields<PodInput & { kind: 'none' }>({ kind: oneOf('none') }),
  bytes: fields<PodInput & { kind: 'bytes' }>({ kind: oneOf('bytes'), name: fileName }),
  url: fields<PodInput & { kind: 'url' }>({ kind: oneOf('url'), name: fileName }),
  object: fields<PodInput & { kind: 'object' }>({
    kind: oneOf('object'),
    name: fileName,
    from: nested('an object of a store', objectAt),
  }),
};

const input: Field<PodInput> = {
  is: 'an input that is known here',
  read: (raw) => {
    const kind = isObject(raw) ? raw['kind'] : undefined;
    const known = Object.entries(INPUTS).find(([name]) => name === kind)?.[1];
    return known && within(known)(raw);
  },
};

const ordersOf = fields<PodOrders>({
  attempt: text('the name of an attempt', /^[a-z0-9.-]{1,253}$/),
  input,
  outputs: listOf('a list of outputs', within(output)),
  manifest: optional(nested('an object of a store', objectAt)),
  answer: flag,
  patience: optional(wholeNumber),
  keyPatience: optional(wholeNumber),
  networks: listOf('a list of networks', within(network)),
  port: optional(wholeNumber),
});

const s3 = fields<Omit<S3Access, 'expiresAt'>>({
  type: oneOf('s3'),
  endpoint: optional(anyText),
  region: anyText,
  accessKey: secret,
  secretKey: secret,
  sessionToken: optional(secret),
  verify: flag,
  guarded: flag,
});

const webdav = fields<WebdavAccess>({
  type: oneOf('webdav'),
  hostname: anyText,
  login: anyText,
  password: secret,
  guarded: flag,
});

const access: Field<Readonly<Record<string, StoreAccess>>> = {
  is: 'the keys of some stores',
  read: (raw) => {
    if (!isObject(raw)) return undefined;
    const found = Object.entries(raw).map(([id, each]) => [id, within(s3)(each) ?? within(webdav)(each)] as const);
    const known = found.filter((entry): entry is readonly [string, StoreAccess] => entry[1] !== undefined);
    return known.length === found.length ? Object.fromEntries(known) : undefined;
  },
};

const storesOf = fields<Omit<PodStores, 'stores'> & { readonly stores: Readonly<Record<string, StoreAccess>> }>({
  stores: access,
  input: optional(secret),
  answer: optional(secret),
  verify: flag,
});

function parsed(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    // What it is instead is told by whoever reads it; a message of the parser might show a piece of a key.
    return undefined;
  }
}

function checked<T>(file: string, read: Read<T>): T {
  if ('value' in read) return read.value;
  const message = `${file} of this pod makes no sense (${read.problems.join('; ')}): are its image and the manager of one version?`;
  throw new StagingError('staging-unavailable', message);
}
