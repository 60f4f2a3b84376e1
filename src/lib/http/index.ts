export type { Resolver } from './address-guard.ts';
export { type Agents, createAgents } from './address-guard.ts';
export { allowedAddresses, type Network } from './allowed-address.ts';
export { type HttpAnswer, HttpClient, type HttpHead, type HttpRequest, type WholeAnswer } from './client.ts';
export { type ConnectionLimits, Counter, clientAddressFinder, limitConnections } from './connection-limits.ts';
export { HttpClientError, originalError, toHttpClientError } from './errors.ts';
export { isProxyUrl } from './proxy.ts';
