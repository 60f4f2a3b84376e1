import { S3Error } from '../lib/errors.ts';
import { writeXml } from '../lib/xml.ts';
import type { Identities, Signer } from '../store/identities.ts';
import type { S3Response } from './exchange.ts';

/** MinIO: seconds, least, most, and when nothing is asked for. */
const MIN_SECONDS = 900;
const MAX_SECONDS = 31_536_000;
const DEFAULT_SECONDS = 3600;

/** A parameter that this server does not know may narrow the keys: they must not be wider than what was asked for. */
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

/** STS AssumeRole: keys for a while, with the rights of the caller or fewer. */
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
  if (signer.identity.kind !== 'user') throw new S3Error('AccessDenied', 'AssumeRole needs the own keys of a user.');
  const seconds = Number(form.get('DurationSeconds') ?? DEFAULT_SECONDS);
  if (!Number.isInteger(seconds) || seconds < MIN_SECONDS || seconds > MAX_SECONDS) {
    throw new S3Error('InvalidParameterValue', `DurationSeconds must be from ${MIN_SECONDS} to ${MAX_SECONDS}.`);
  }
  const policy = form.get('Policy') || undefined;
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

/** STS wraps its errors once more than S3 does. */
export function stsError({ status, code, message }: S3Error, requestId: string): S3Response {
  const content = { Error: { Type: 'Sender', Code: code, Message: message }, RequestId: requestId };
  const headers = { 'content-type': 'application/xml' };
  return { status, headers, body: writeXml('ErrorResponse', content, NAMESPACE) };
}
