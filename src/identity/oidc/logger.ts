/** What OIDC has to tell the operator. Fits pino. */
export interface OidcLogger {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}
