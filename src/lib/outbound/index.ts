export { allowedAddresses, type Network } from './allowed-address.ts';
export { connectionFailure } from './failure.ts';
export { type Agents, createAgents, type Resolver } from './guarded-agent.ts';
export { TraceExporter } from './trace-exporter.ts';
