import { Secret } from '../../../lib/secret.ts';
import { type IssuedKeys, type KeyScope, StoreError } from '../../../ports/index.ts';
import { childElements, childText, type Element, readXml } from '../../../s3-server/index.ts';
import type { S3Api } from './s3-api.ts';

/** The limits of the store for the duration of a session. */
const SHORTEST_SECONDS = 900;
const LONGEST_SECONDS = 31_536_000;

/** The maximum size of a session policy in bytes. */
const LONGEST_POLICY = 2048;

/** The size as MinIO counts it: it encodes the policy again in Go, which writes six characters for each of these. */
const countPolicyBytes = (policy: string) => Buffer.byteLength(policy.replaceAll(/[<>&\u2028\u2029]/g, '\\u0000'));

/**
 * Requests keys for one job: a session of the manager's account with a policy that is all it may do. The store does not store
 * sessions, so they cannot be revoked before they expire.
 */
export async function requestSession(scope: KeyScope, seconds: number, s3: S3Api): Promise<IssuedKeys> {
  const duration = Math.min(Math.max(Math.ceil(seconds), SHORTEST_SECONDS), LONGEST_SECONDS);
  const form = new URLSearchParams({
    Action: 'AssumeRole',
    Version: '2011-06-15',
    DurationSeconds: String(duration),
    Policy: sessionPolicy(scope),
  });
  const { body } = await s3.send({
    method: 'POST',
    path: '/',
    service: 'sts',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: form.toString(),
  });
  const credentials = within(within(readXml(body.toString(), 'AssumeRoleResponse'), 'AssumeRoleResult'), 'Credentials');
  const text = (name: string) => childText(credentials, name) ?? '';
  return {
    id: text('AccessKeyId'),
    accessKey: new Secret(text('AccessKeyId')),
    secretKey: new Secret(text('SecretAccessKey')),
    sessionToken: new Secret(text('SessionToken')),
    expiresAt: new Date(text('Expiration')),
    revocable: false,
  };
}

function within(element: Element, name: string): Element {
  const [child] = childElements(element, name);
  if (!child)
    throw new StoreError('unavailable', 'the object store answered a request for keys with none: is it MinIO?');
  return child;
}

/**
 * The policy document of a scope. If it names so many objects that the store would reject it, objects below a writable prefix
 * are replaced by that prefix. Only the manager asks for so many, about what a job may have written before it was interrupted.
 */
export function sessionPolicy(scope: KeyScope): string {
  const exact = toPolicyDocument(scope);
  if (countPolicyBytes(exact) <= LONGEST_POLICY) return exact;
  const { read, readUnder = [], write } = scope;
  const under = write.filter((place) => read.some((object) => isBelow(object, place)));
  const rest = read.filter((object) => !under.some((place) => isBelow(object, place)));
  const wider = toPolicyDocument({ read: rest, readUnder: [...readUnder, ...under], write });
  if (countPolicyBytes(wider) <= LONGEST_POLICY) return wider;
  throw new StoreError(
    'too-large',
    `the object store gives no keys for so many places at once: their names have ${countPolicyBytes(wider)} bytes together, ` +
      `at most ${LONGEST_POLICY} may be`,
  );
}

type Place = { readonly bucket: string; readonly prefix: string };

const isBelow = ({ bucket, key }: KeyScope['read'][number], place: Place) =>
  bucket === place.bucket && key.startsWith(place.prefix);

function toPolicyDocument({ read, readUnder = [], write }: KeyScope): string {
  const below = ({ bucket, prefix }: Place) => `${literal(bucket, prefix)}*`;
  const statements = [
    {
      Action: ['s3:GetObject'],
      Resource: [...read.map(({ bucket, key }) => literal(bucket, key)), ...readUnder.map(below)],
    },
    { Action: ['s3:PutObject', 's3:AbortMultipartUpload', 's3:ListMultipartUploadParts'], Resource: write.map(below) },
  ];
  return JSON.stringify({
    Version: '2012-10-17',
    Statement: statements.filter(({ Resource }) => Resource.length > 0).map((each) => ({ Effect: 'Allow', ...each })),
  });
}

/** MinIO cannot escape wildcards in a policy, so there are no session keys for object keys that contain them. */
function literal(bucket: string, key: string): string {
  if (/[*?]|\$\{/.test(key)) {
    throw new StoreError(
      'conflict',
      `there are no keys for "${bucket}/${key}": MinIO takes "*", "?" and "\${" in it for a pattern. Give it another name`,
    );
  }
  return `arn:aws:s3:::${bucket}/${key}`;
}
