/**
 * An expected failure. `code` comes from the closed union of its domain and decides what a caller may do about it;
 * `message` is a sentence for the person who made the request. Status codes are known in `http/errors.ts` alone.
 */
export class OscarError<Code extends string = string> extends Error {
  readonly code: Code;

  constructor(code: Code, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.name = new.target.name;
  }
}
