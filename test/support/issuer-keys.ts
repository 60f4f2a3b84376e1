import { exportJWK, generateKeyPair, type JWK } from 'jose';

export const ALGORITHM = 'RS256';

export interface KeyPair {
  readonly kid: string;
  readonly private: JWK;
  readonly public: JWK;
}

let made = 0;

/** A new signing key. RSA, because its public half is what a forger would use as the secret of an HS256 token. */
export async function newKeyPair(): Promise<KeyPair> {
  const { privateKey, publicKey } = await generateKeyPair(ALGORITHM, { extractable: true });
  made += 1;
  const kid = `key-${made}`;
  const common = { alg: ALGORITHM, use: 'sig', kid };
  return {
    kid,
    private: { ...(await exportJWK(privateKey)), ...common },
    public: { ...(await exportJWK(publicKey)), ...common },
  };
}
