import type { FastifyInstance, FastifyRequest } from 'fastify';
import { FederationError, MEMBER_HEADER, readMember, type SignedRequest } from '../peers/index.ts';
import { answerCode } from './errors.ts';
import { NEVER_SHED } from './shedding.ts';

/** Routes with this are for requests of other managers; under the same path, those of people have routes of their own. */
export const SIGNED = { ...NEVER_SHED, constraints: { signed: 'yes' }, errorHandler: answerCode };

/** Tells requests that other managers signed from all others, before anything else is looked at. */
export function tellSigned(app: FastifyInstance): void {
  app.addConstraintStrategy({
    name: 'signed',
    storage: () => {
      const handlers = new Map<unknown, Handler>();
      return {
        get: (value) => handlers.get(value) ?? null,
        set: (value, handler) => void handlers.set(value, handler),
      };
    },
    deriveConstraint: ({ headers }) => (headers[MEMBER_HEADER] === undefined ? undefined : 'yes'),
  });
}

type Strategy = Parameters<FastifyInstance['addConstraintStrategy']>[0];
type Handler = Parameters<ReturnType<Strategy['storage']>['set']>[1];

/** What of a request is signed, and by whom it claims to be. The path begins where ours does: a proxy takes the rest away. */
export function signedPartsOf(request: FastifyRequest): SignedRequest & { readonly header: string } {
  const [path = '', ...query] = (request.raw.url ?? '').split('?');
  const header = headerText(request, MEMBER_HEADER) ?? '';
  return { method: request.method, path, query: query.join('?'), body: signedBytes(request), header };
}

/** Who says to have signed a request. It proves nothing. */
export function claimIn(request: FastifyRequest): { readonly uid: string; readonly member: string } {
  const read = readMember(headerText(request, MEMBER_HEADER) ?? '');
  if ('value' in read) return read.value;
  throw new FederationError('bad-signature', 'the header X-Oscar-Member is not readable');
}

export function headerText({ headers }: FastifyRequest, name: string): string | undefined {
  const value = headers[name];
  return Array.isArray(value) ? value.join(',') : value;
}

export const signedBytes = ({ body }: FastifyRequest) => (body instanceof Uint8Array ? body : new Uint8Array());
