import type { FastifyInstance, FastifyRequest } from 'fastify';
import { FEDERATION_HEADER, FederationError, MEMBER_HEADER, readMember, type SignedRequest } from '../peers/index.ts';
import { answerCode } from './errors.ts';
import { NEVER_SHED } from './shedding.ts';

/** Routes with this are for requests of other managers; under the same path, those of people have routes of their own. */
export const SIGNED = { ...NEVER_SHED, constraints: { signed: 'yes' }, errorHandler: answerCode };

/** Lets the router separate requests that other managers signed from all others. */
export const routeSigned = (app: FastifyInstance) => routeByHeader(app, 'signed', MEMBER_HEADER);

/**
 * A route with this gets the requests of coordinators (`X-Oscar-Federation`); a route without it, under the same path, gets
 * those of users.
 */
export const FROM_COORDINATOR = { constraints: { coordinator: 'yes' } };

/** Lets the router separate requests of coordinators from those of users. */
export const routeCoordinators = (app: FastifyInstance) => routeByHeader(app, 'coordinator', FEDERATION_HEADER);

function routeByHeader(app: FastifyInstance, constraint: string, header: string): void {
  app.addConstraintStrategy({
    name: constraint,
    storage: () => {
      const handlers = new Map<unknown, Handler>();
      return {
        get: (value) => handlers.get(value) ?? null,
        set: (value, handler) => void handlers.set(value, handler),
      };
    },
    deriveConstraint: ({ headers }) => (headers[header] === undefined ? undefined : 'yes'),
  });
}

type Strategy = Parameters<FastifyInstance['addConstraintStrategy']>[0];
type Handler = Parameters<ReturnType<Strategy['storage']>['set']>[1];

/** What of a request is signed, and by whom it claims to be. The path begins where ours does: a proxy takes the rest away. */
export function signedParts(request: FastifyRequest): SignedRequest & { readonly header: string } {
  const [path = '', ...query] = (request.raw.url ?? '').split('?');
  const header = headerText(request, MEMBER_HEADER) ?? '';
  return { method: request.method, path, query: query.join('?'), body: signedBytes(request), header };
}

/** Who says to have signed a request. It proves nothing. */
export function readMemberClaim(request: FastifyRequest): { readonly uid: string; readonly member: string } {
  const read = readMember(headerText(request, MEMBER_HEADER) ?? '');
  if ('value' in read) return read.value;
  throw new FederationError('bad-signature', 'the header X-Oscar-Member is malformed');
}

export function headerText({ headers }: FastifyRequest, name: string): string | undefined {
  const value = headers[name];
  return Array.isArray(value) ? value.join(',') : value;
}

export const signedBytes = ({ body }: FastifyRequest) => (body instanceof Uint8Array ? body : new Uint8Array());
