/**
 * Three files of undici that are loaded one by one, because its main module loads fetch, WebSocket, caches and mocks as well: 28 MB
 * instead of 7. They are what the main module exports as `Agent`, `buildConnector` and `Dispatcher.prototype.request`.
 */
declare module 'undici/lib/dispatcher/agent.js' {
  import { Agent } from 'undici';
  export default Agent;
}

declare module 'undici/lib/core/connect.js' {
  import { buildConnector } from 'undici';
  export default buildConnector;
}

declare module 'undici/lib/api/api-request.js' {
  import type { Dispatcher } from 'undici';
  export default function request(
    this: Dispatcher,
    options: Dispatcher.RequestOptions,
  ): Promise<Dispatcher.ResponseData>;
}
