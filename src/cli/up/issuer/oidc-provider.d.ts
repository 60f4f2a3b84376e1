/** As much of oidc-provider 9, which has no types of its own, as this issuer and that of the tests use. */
declare module 'oidc-provider' {
  import type { IncomingMessage, ServerResponse } from 'node:http';

  export interface Client {
    readonly clientId: string;
  }

  export interface GrantContext {
    readonly oidc: { readonly client: Client; readonly params: Record<string, string | undefined> };
    body: unknown;
  }

  interface Token {
    save(): Promise<string>;
  }

  interface TokenProperties {
    accountId: string;
    client: Client;
    grantId: string;
    gty: string;
    scope: string;
    resource?: string;
    resourceServer?: ResourceServer;
    rotations?: number;
  }

  interface Grant {
    addOIDCScope(scope: string): void;
    addResourceScope(resource: string, scope: string): void;
    save(): Promise<string>;
  }

  interface DeviceCode {
    accountId?: string;
    authTime?: number;
    grantId?: string;
    readonly clientId: string;
    scope?: string;
    resource?: string;
    readonly params: Record<string, string | undefined>;
    save(): Promise<string>;
  }

  interface IdToken {
    scope: string;
    issue(options: { use: 'idtoken' }): Promise<string>;
  }

  interface ResourceServer {
    readonly audience: string;
  }

  export class Provider {
    constructor(issuer: string, configuration: Record<string, unknown>);

    use(middleware: (ctx: { body: unknown }, next: () => Promise<void>) => Promise<void>): void;
    callback(): (request: IncomingMessage, response: ServerResponse) => Promise<void>;
    interactionDetails(
      request: IncomingMessage,
      response: ServerResponse,
    ): Promise<{ readonly params: Record<string, unknown> }>;
    interactionFinished(request: IncomingMessage, response: ServerResponse, result: object): Promise<void>;
    registerGrantType(name: string, handler: (ctx: GrantContext) => Promise<void>, parameters: string[]): void;

    readonly DeviceCode: { findByUserCode(userCode: string): Promise<DeviceCode | undefined> };
    readonly Grant: new (properties: {
      accountId: string;
      clientId: string;
    }) => Grant;
    readonly AccessToken: new (
      properties: TokenProperties,
    ) => Token & { readonly expiration: number };
    readonly RefreshToken: new (
      properties: TokenProperties,
    ) => Token;
    readonly IdToken: new (
      claims: object,
      options: { ctx: GrantContext },
    ) => IdToken;
    readonly ResourceServer: new (
      identifier: string,
      info: object,
    ) => ResourceServer;
  }

  type ErrorClass = new (description: string) => Error;
  export const errors: { readonly InvalidGrant: ErrorClass; readonly InvalidTarget: ErrorClass };
}
