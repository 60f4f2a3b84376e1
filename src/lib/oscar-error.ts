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

/** What was said first about a problem that others have passed on in words of theirs. */
export function rootMessage(problem: unknown): string {
  if (!(problem instanceof Error)) return String(problem);
  return problem.cause instanceof OscarError ? rootMessage(problem.cause) : problem.message;
}
