import type { Secret } from '../base/secret.ts';
import type { Service } from '../service/index.ts';

/** An access token of a service's owner; with an audience, for that cluster alone where the issuer can do that. */
export type Mint = (service: Service, why: string, audience?: string) => Promise<Secret>;
