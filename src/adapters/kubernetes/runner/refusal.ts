import { ApiError } from '../client/api-error.ts';

/** Why the API server does not take an object as it is. */
interface Refusal {
  readonly message: string;
  /** It never will. */
  readonly final: boolean;
}

/** Undefined when it may simply be away. */
export function podRefusal(error: unknown): Refusal | undefined {
  const cause = error instanceof Error ? error.cause : undefined;
  if (!(cause instanceof ApiError)) return undefined;
  const { status, message } = cause;
  switch (status) {
    case 400:
    case 404:
    case 413:
    case 422:
      return { message, final: true };
    case 403:
      // A quota has room again when something else has ended; a right can be given. What a policy forbids stays so.
      return { message, final: !/exceeded quota|cannot \S+ resource|being terminated/.test(message) };
    default:
      return undefined;
  }
}

/** Why the API server will never do that; undefined when it has. */
export async function podRefused(work: () => Promise<unknown>): Promise<string | undefined> {
  try {
    await work();
    return undefined;
  } catch (error) {
    const refusal = podRefusal(error);
    if (!refusal?.final) throw error;
    return refusal.message;
  }
}
