/** The acts that are audited. The names are part of the documented format (docs/operation.md#audit): never rename one. */
export type AuditAction =
  | 'sign-in'
  | 'service.create'
  | 'service.update'
  | 'service.delete'
  | 'service.invoke'
  | 'bucket.create'
  | 'bucket.update'
  | 'bucket.delete'
  | 'bucket.presign'
  | 'keys.rotate'
  | 'settings.update'
  | 'job.cancel'
  | 'job.delete'
  | 'federation.update'
  | 'federation.restore'
  | 'member.leave'
  | 'member.rekey'
  | 'worker.create'
  | 'worker.adopt'
  | 'worker.rekey'
  | 'worker.update'
  | 'worker.release'
  | 'worker.take-over'
  | 'grant.use'
  | 'grant.revoke'
  | 'job.open'
  | 'job.offer'
  | 'job.report'
  | 'job.stop'
  | 'storage.event'
  | 'audit.lost';

/** One security-relevant act. It never contains a secret, a token or the content of a request. */
export interface AuditEvent {
  readonly action: AuditAction;
  /**
   * `admin`, `user:<uid>`, `service-token:<service>`, `member:<cluster id>/<service>`, `coordinator:<cluster id>/<service>`,
   * `store`, `manager`, or `anonymous`.
   */
  readonly actor: string;
  /** `service/<name>`, `bucket/<name>`, `job/<service>/<id>`, `grant/<id>`. */
  readonly object?: string | undefined;
  /** `refused`: the request was rejected and changed nothing. `failed`: it may have been done in part. */
  readonly outcome: 'success' | 'refused' | 'failed';
  /** The code of the error, or why the manager did it. */
  readonly reason?: string | undefined;
  /** The id of the request, as in the log and in the answer. */
  readonly request?: string | undefined;
  readonly address?: string | undefined;
  /** How many acts of this kind the event stands for; one if absent. */
  readonly count?: number | undefined;
  readonly details?: Readonly<Record<string, string | number>> | undefined;
}

/** An event as it is written: with the version of the format and its time. */
export interface AuditRecord extends AuditEvent {
  readonly audit: number;
  readonly time: string;
}

/** Receives security-relevant acts. */
export interface AuditLog {
  /** Never throws and does not wait: a stream that cannot be written is reported to the operator. */
  record(event: AuditEvent): void;
}

export const NO_AUDIT: AuditLog = { record: () => undefined };
