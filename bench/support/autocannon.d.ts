/** As much of autocannon 8, which has no types of its own, as `throughput.ts` uses. */
declare module 'autocannon' {
  namespace autocannon {
    interface Request {
      readonly method?: string;
      readonly path?: string;
      readonly body?: string;
      /** Called before each time the request is sent. */
      readonly setupRequest?: (request: Request) => Request;
    }

    interface Client {
      setRequests(requests: Request[]): void;
    }

    interface Options {
      readonly url: string;
      readonly connections: number;
      /** Seconds. */
      readonly duration: number;
      readonly headers: Readonly<Record<string, string>>;
      readonly tlsOptions?: { readonly ca: string };
      /** Called once for each connection. */
      readonly setupClient: (client: Client) => void;
    }

    interface Result {
      readonly '2xx': number;
      readonly non2xx: number;
      /** Connections that failed and requests that were never answered. */
      readonly errors: number;
      /** Seconds that it took. */
      readonly duration: number;
      readonly statusCodeStats: Readonly<Record<string, { readonly count: number }>>;
    }
  }

  function autocannon(options: autocannon.Options): PromiseLike<autocannon.Result>;
  export = autocannon;
}
