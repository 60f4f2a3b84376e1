import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Authenticator } from '../../identity/index.ts';
import type { Secret } from '../../lib/secret.ts';
import type { JobStore } from '../../ports/index.ts';
import { errors, plainText } from '../answers.ts';
import { systemPrincipal } from '../authentication.ts';
import { TEXT_TYPE } from '../go-json.ts';
import type { Meters } from '../prometheus.ts';

export interface PrometheusDeps {
  readonly authenticator: Authenticator;
  readonly meters: Meters;
  readonly jobs: Pick<JobStore, 'counts' | 'oldestWaiting'>;
  /** For scrapers, as `Bearer`; without one the administrator alone reads. */
  readonly token?: Secret | undefined;
  readonly now: () => number;
}

/**
 * For Prometheus: the administrator's Basic credentials, or the token of the setting as `Bearer`. Callers from this
 * machine need them too: scripts run here, and behind a proxy everybody does.
 */
export function prometheusRoutes(app: FastifyInstance, deps: PrometheusDeps): void {
  const schema = {
    operationId: 'scrapeMetrics',
    summary: 'Figures for Prometheus',
    tags: ['metrics'],
    response: { 200: plainText('The exposition format of Prometheus'), ...errors(403) },
  };
  app.get('/metrics', { schema }, async (request, reply) => {
    if (!isScraper(request, deps.token)) {
      const principal = await systemPrincipal(request, deps.authenticator);
      if (principal.kind !== 'admin') {
        return reply.code(403).type(TEXT_TYPE).send('only the administrator may read these figures');
      }
    }
    const { type, text } = await deps.meters.scrape(deps.jobs, deps.now());
    return reply.header('content-type', type).send(text);
  });
}

function isScraper(request: FastifyRequest, token: Secret | undefined): boolean {
  const [authorization = '', ...others] = request.raw.headersDistinct['authorization'] ?? [];
  const isToken = others.length === 0 && authorization.startsWith('Bearer ') && token?.equals(authorization.slice(7));
  if (isToken) request.who = 'prometheus';
  return isToken === true;
}
