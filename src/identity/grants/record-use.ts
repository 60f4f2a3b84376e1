/** One use of a grant, for whoever asks later who did what with it. */
export interface GrantUse {
  /** Its id. */
  readonly grant: string;
  /** Whose it is. */
  readonly owner: string;
  /** Uid of the service on whose behalf. */
  readonly service: string;
  readonly why: string;
  readonly at: number;
}

/** Fits pino. */
export interface AuditLog {
  info(fields: object, message: string): void;
}

export function recordUse({ grant, owner, service, why, at }: GrantUse, log: AuditLog): void {
  log.info({ audit: 'grant', grant, owner, service, why, at: new Date(at).toISOString() }, 'refresh token used');
}
