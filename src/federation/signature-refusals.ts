import { FederationError, type SignatureProblem } from '../peers/index.ts';

const refuse = (why: string) => () => new FederationError('bad-signature', why);

/** The errors for signatures that are rejected, at the coordinator and at the worker. */
export const signatureErrors: Readonly<Record<SignatureProblem | 'repeated', () => FederationError>> = {
  unreadable: refuse('the header X-Oscar-Member is not readable: send uid;member;time;nonce;signature'),
  unknown: refuse('the signature is of nobody that this manager knows'),
  mismatch: refuse('the signature does not fit the request: it must be made with the key of this member'),
  'wrong-time': refuse('the request was signed at another time: set the clocks of both managers'),
  repeated: refuse('this very request was here before: sign it anew'),
};
