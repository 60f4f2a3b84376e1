import { OscarError } from '../../base/oscar-error.ts';

/** Not everything can be brought where it belongs, and trying again would not help. */
export class OutputFailed extends OscarError<'output-failed'> {
  constructor(message: string, options?: ErrorOptions) {
    super('output-failed', message, options);
  }
}
