/** What the issuer of `oscar up` uses of oidc-provider 9 beyond what test/support declares; it has no types of its own. */
declare module 'oidc-provider' {
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

  export interface Provider {
    use(middleware: (ctx: { body: unknown }, next: () => Promise<void>) => Promise<void>): void;
    readonly DeviceCode: { findByUserCode(userCode: string): Promise<DeviceCode | undefined> };
  }
}
