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
  wholeNumberField,
} from '../../lib/fields.ts';
import type { Network } from '../../lib/http/index.ts';
import { Secret } from '../../lib/secret.ts';
import type { ObjectAt, S3Access, StageOut, StoreAccess, WebdavAccess } from '../../model/job/index.ts';
import { StagingError } from '../transfers/errors.ts';

/** The task of the programs in the pod of one attempt: `orders.json`. It has no secrets and never changes. */
export interface PodOrders {
  /** Name of the attempt. */
  readonly attempt: string;
  readonly input: PodInput;
  readonly outputs: readonly StageOut[];
  /** See `Attempt.inputLabel`. */
  readonly inputLabel?: string;
  /** See `Attempt.manifest`. */
  readonly manifest?: ObjectAt;
  /** Upload the answer for a synchronous caller to the URL in `stores.json`. */
  readonly answer: boolean;
  /** See `Attempt.patience`. */
  readonly patience?: number;
  /**
   * Milliseconds to wait for renewed keys when a store rejects them as expired. A changed Secret reaches the pod within
   * some 90 s, and the manager that changes it may just be restarting.
   */
  readonly keyPatience?: number;
  /** The operator's networks, in which stores of users may be although they are not public. */
  readonly networks: readonly Network[];
  /**
   * The port at which stage-out answers `GET /` with 503 until the script has ended, then with 200: a readiness probe
   * shows the manager that the script has ended. Absent: there is no probe.
   */
  readonly port?: number;
}

export type PodInput =
  | { readonly kind: 'none' }
  /** The bytes of the file `input` next to the orders, under this file name. */
  | { readonly kind: 'bytes'; readonly name: string }
  /** The object at the URL in `stores.json`, under this file name. */
  | { readonly kind: 'url'; readonly name: string }
  | { readonly kind: 'object'; readonly name: string; readonly from: ObjectAt };

/** The keys of the stores: `stores.json`. The manager renews it while the pod runs, and each phase reads it again. */
export interface PodStores {
  readonly stores: ReadonlyMap<string, StoreAccess>;
  /** Presigned URLs of the manager's own bucket. */
  readonly input?: Secret;
  readonly answer?: Secret;
  /** Whether the certificate of these URLs is verified. */
  readonly verify: boolean;
}

export const writeOrders = (orders: PodOrders): string => JSON.stringify(orders);

/** The only place that serializes the keys of an attempt. */
export function writeStores({ stores, input, answer, verify }: PodStores): string {
  return JSON.stringify({
    stores: Object.fromEntries([...stores].map(([id, access]) => [id, revealSecrets(access)])),
    ...(input && { input: input.reveal() }),
    ...(answer && { answer: answer.reveal() }),
    verify,
  });
}

function revealSecrets(access: StoreAccess): Record<string, unknown> {
  // Only the manager, which renews the keys, needs their expiry; the pod notices it when a store rejects them.
  const entries = Object.entries({ ...access, expiresAt: undefined }).map(([key, value]) => [
    key,
    value instanceof Secret ? value.reveal() : value,
  ]);
  return Object.fromEntries(entries);
}

/** Throws a {@link StagingError} that describes the problem. */
export const readOrders = (json: string): PodOrders => unwrap('orders.json', orderFields(parseJson(json)));

/** Throws a {@link StagingError} that describes the problem. */
export function readStores(json: string): PodStores {
  const { stores, ...rest } = unwrap('stores.json', storeFields(parseJson(json)));
  return { ...rest, stores: new Map(Object.entries(stores)) };
}

const anyText = textField('text', /^/);
const secret: Field<Secret> = { is: 'text', read: (raw) => (typeof raw === 'string' ? new Secret(raw) : undefined) };

const fileName: Field<string> = {
  is: 'the name of a file',
  read: (raw) => (typeof raw === 'string' && isFileName(raw) ? raw : undefined),
};

/** The name becomes part of a path and must not leave its directory. */
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
const network = fields<Network>({ address: anyText, prefix: wholeNumberField, family: oneOfField('ipv4', 'ipv6') });

const INPUTS: Readonly<Record<PodInput['kind'], (raw: unknown) => Read<PodInput>>> = {
  none: fields<PodInput & { kind: 'none' }>({ kind: oneOfField('none') }),
  bytes: fields<PodInput & { kind: 'bytes' }>({ kind: oneOfField('bytes'), name: fileName }),
  url: fields<PodInput & { kind: 'url' }>({ kind: oneOfField('url'), name: fileName }),
  object: fields<PodInput & { kind: 'object' }>({
    kind: oneOfField('object'),
    name: fileName,
    from: nested('an object of a store', objectAt),
  }),
};

const input: Field<PodInput> = {
  is: 'a known kind of input',
  read: (raw) => {
    const kind = isObject(raw) ? raw['kind'] : undefined;
    const known = Object.entries(INPUTS).find(([name]) => name === kind)?.[1];
    return known && within(known)(raw);
  },
};

const orderFields = fields<PodOrders>({
  attempt: textField('the name of an attempt', /^[a-z0-9.-]{1,253}$/),
  input,
  outputs: listOf('a list of outputs', within(output)),
  inputLabel: optional(anyText),
  manifest: optional(nested('an object of a store', objectAt)),
  answer: flagField,
  patience: optional(wholeNumberField),
  keyPatience: optional(wholeNumberField),
  networks: listOf('a list of networks', within(network)),
  port: optional(wholeNumberField),
});

const s3 = fields<Omit<S3Access, 'expiresAt'>>({
  type: oneOfField('s3'),
  endpoint: optional(anyText),
  region: anyText,
  accessKey: secret,
  secretKey: secret,
  sessionToken: optional(secret),
  verify: flagField,
  guarded: flagField,
});

const webdav = fields<WebdavAccess>({
  type: oneOfField('webdav'),
  hostname: anyText,
  login: anyText,
  password: secret,
  guarded: flagField,
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

const storeFields = fields<Omit<PodStores, 'stores'> & { readonly stores: Readonly<Record<string, StoreAccess>> }>({
  stores: access,
  input: optional(secret),
  answer: optional(secret),
  verify: flagField,
});

function parseJson(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    // The caller reports the problem: the parser's message could quote a part of a key.
    return undefined;
  }
}

function unwrap<T>(file: string, read: Read<T>): T {
  if ('value' in read) return read.value;
  const message = `${file} of this pod is invalid (${read.problems.join('; ')}): check that its image and the manager have the same version`;
  throw new StagingError('staging-unavailable', message);
}
