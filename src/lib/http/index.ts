export { allowedAddresses, type Network } from './allowed-address.ts';
export { toHttpClientError } from './failure.ts';
export { type Agents, createAgents, type Resolver } from './guarded-agent.ts';
