import { type Credential, PeerError } from './peer.ts';

/** The header of somebody's own credential. */
export function authorization(as: Credential, clusterId: string): Readonly<Record<string, string>> {
  if (as.kind === 'basic') {
    const account = Buffer.from(`${as.username}:${as.password.reveal()}`).toString('base64');
    return { authorization: `Basic ${account}` };
  }
  const token = as.token.reveal();
  if (!/^[\x21-\x7e]+$/.test(token)) {
    throw new PeerError('refused', `cluster "${clusterId}" was not asked: the token has characters that no token has`);
  }
  return { authorization: `Bearer ${token}` };
}
