import {
  type Field,
  fields,
  flagField,
  nested,
  optional,
  type Read,
  textField,
  urlField,
  wholeNumberField,
} from '../../lib/fields.ts';
import { Secret } from '../../lib/secret.ts';
import type { Permit } from '../delegation-ports.ts';

const secret: Field<Secret> = {
  is: 'a key',
  read: (raw) => (typeof raw === 'string' && /^[\x21-\x7e]{1,8192}$/.test(raw) ? new Secret(raw) : undefined),
};

const bucket = textField('the name of a bucket', /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/);
const objectKey = textField('the key of an object', /^[^\0]{1,1024}$/u);

interface WireProvider {
  readonly endpoint: string;
  readonly verify: boolean;
  readonly region: string;
  readonly access_key: Secret;
  readonly secret_key: Secret;
  readonly session_token?: Secret;
  readonly expires_at: number;
}

type WirePermit = Omit<Permit, 'store'> & { readonly minio_provider: WireProvider };

const readWirePermit = fields<WirePermit>({
  minio_provider: nested(
    'an object with endpoint, verify, region, access_key, secret_key and expires_at',
    fields<WireProvider>({
      endpoint: urlField,
      verify: flagField,
      region: textField('a region', /^[\w.-]{0,64}$/),
      access_key: secret,
      secret_key: secret,
      session_token: optional(secret),
      expires_at: wholeNumberField,
    }),
  ),
  input: optional(nested('an object with bucket and key', fields({ bucket, key: objectKey }))),
  staging: nested(
    'an object with bucket, prefix and manifest',
    fields({ bucket, prefix: objectKey, manifest: objectKey }),
  ),
  lease: wholeNumberField,
});

/** The keys are in it: it is shown to the member that proved who it is, and never logged. */
export function writePermit({ store, input, staging, lease }: Permit) {
  const { endpoint, verify, region, accessKey, secretKey, sessionToken, expiresAt } = store;
  return {
    minio_provider: {
      endpoint,
      verify,
      region,
      access_key: accessKey.reveal(),
      secret_key: secretKey.reveal(),
      ...(sessionToken && { session_token: sessionToken.reveal() }),
      expires_at: expiresAt,
    },
    ...(input && { input }),
    staging,
    lease,
  };
}

export function readPermit(raw: unknown): Read<Permit> {
  const read = readWirePermit(raw);
  if ('problems' in read) return read;
  const { minio_provider: provider, ...rest } = read.value;
  const { endpoint, verify, region, access_key, secret_key, session_token, expires_at } = provider;
  const keys = { accessKey: access_key, secretKey: secret_key, ...(session_token && { sessionToken: session_token }) };
  return { value: { ...rest, store: { endpoint, verify, region, ...keys, expiresAt: expires_at } } };
}
