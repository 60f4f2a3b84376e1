import { OscarError } from '../base/oscar-error.ts';

/**
 * Why a job of another cluster cannot be begun here. `called-off`: that cluster does not want it run, here or by now.
 * `origin-away`: that cluster does not answer.
 */
export type NotRunCode = 'called-off' | 'origin-away';

/** Says so to whoever sees the job through; nobody outside is told. */
export class NotRun extends OscarError<NotRunCode> {
  /** With `origin-away`: milliseconds for which it is worth asking again. After that it has asked somebody else. */
  readonly patience: number;

  constructor(code: NotRunCode, message: string, options: ErrorOptions & { readonly patience?: number } = {}) {
    super(code, message, options);
    this.patience = options.patience ?? 0;
  }
}
