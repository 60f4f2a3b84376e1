import { LONGEST_SESSION_POLICY } from '../access/authorization.ts';
import { S3Error } from '../lib/errors.ts';
import { writeXml } from '../lib/xml.ts';
import type { Identities, Signer } from '../store/identities.ts';
import type { S3Response } from './exchange.ts';

/** MinIO's limits for the lifetime of keys, and its default. */
const MIN_SECONDS = 900;
const MAX_SECONDS = 31_536_000;
const DEFAULT_SECONDS = 3600;

/**
 * Other parameters are rejected: an unknown one may restrict the keys, which must not have more rights than requested.
 */
const KNOWN_PARAMETERS = new Set([
  'Action',
  'Version',
  'DurationSeconds',
  'Policy',
  'RoleArn',
  'RoleSessionName',
  'ExternalId',
]);

const NAMESPACE = 'https://sts.amazonaws.com/doc/2011-06-15/';

/** STS AssumeRole: creates temporary keys with the rights of the caller, optionally restricted by a policy. */
export async function assumeRole(
  signer: Signer,
  form: URLSearchParams,
  identities: Identities,
  requestId: string,
): Promise<S3Response> {
  const action = form.get('Action');
  if (action !== 'AssumeRole')
    throw new S3Error('InvalidParameterValue', `The action ${action} is not supported: use AssumeRole.`);
  const unknown = [...form.keys()].find((name) => !KNOWN_PARAMETERS.has(name));
  if (unknown !== undefined) {
    throw new S3Error('InvalidParameterValue', `The parameter ${unknown} is not supported by this server.`);
  }
  if (signer.identity.kind !== 'user')
    throw new S3Error('AccessDenied', 'AssumeRole must be signed with the permanent keys of a user.');
  const seconds = Number(form.get('DurationSeconds') ?? DEFAULT_SECONDS);
  if (!Number.isInteger(seconds) || seconds < MIN_SECONDS || seconds > MAX_SECONDS) {
    throw new S3Error('InvalidParameterValue', `DurationSeconds must be from ${MIN_SECONDS} to ${MAX_SECONDS}.`);
  }
  const policy = form.get('Policy') || undefined;
  if (policy !== undefined && policy.length > LONGEST_SESSION_POLICY) {
    throw new S3Error('InvalidParameterValue', `The policy is longer than ${LONGEST_SESSION_POLICY} characters.`);
  }
  const keys = await identities.issue({ kind: 'session', parent: signer.principal, policy, ttl: seconds * 1000 });
  const content = {
    AssumeRoleResult: {
      AssumedRoleUser: { Arn: `arn:aws:sts:::assumed-role/${signer.principal}`, AssumedRoleId: keys.id },
      Credentials: {
        AccessKeyId: keys.accessKey,
        SecretAccessKey: keys.secretKey.reveal(),
        SessionToken: keys.sessionToken.reveal(),
        Expiration: new Date(keys.expiresAt).toISOString(),
      },
    },
    ResponseMetadata: { RequestId: requestId },
  };
  const headers = { 'content-type': 'application/xml', 'cache-control': 'no-store' };
  return { status: 200, headers, body: writeXml('AssumeRoleResponse', content, NAMESPACE) };
}

/** STS wraps its errors in one more element than S3. */
export function stsError({ status, code, message }: S3Error, requestId: string): S3Response {
  const content = { Error: { Type: 'Sender', Code: code, Message: message }, RequestId: requestId };
  const headers = { 'content-type': 'application/xml' };
  return { status, headers, body: writeXml('ErrorResponse', content, NAMESPACE) };
}
