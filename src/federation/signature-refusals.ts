import { FederationError, type SignatureProblem } from '../peers/index.ts';

const refuse = (why: string) => () => new FederationError('bad-signature', why);

/** The errors for signatures that are rejected, at the coordinator and at the worker. */
export const signatureErrors: Readonly<Record<SignatureProblem | 'repeated', () => FederationError>> = {
  unreadable: refuse('the header X-Oscar-Member is malformed: send uid;member;time;nonce;signature'),
  unknown: refuse('the signature is of a member that this manager does not know'),
  mismatch: refuse('the signature does not match the request: sign it with the key of this member'),
  'wrong-time': refuse('the time of the signature is too far from now: check the clocks of both managers'),
  repeated: refuse('this signature was already used: sign the request again'),
};
