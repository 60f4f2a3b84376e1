import { OscarError } from './oscar-error.ts';

/** The body of a request is not JSON that the manager accepts. */
class JsonError extends OscarError<'not-json'> {
  constructor(message: string, options?: ErrorOptions) {
    super('not-json', message, options);
  }
}

/** Deeper than any definition, and far below the depth at which a recursive function would exhaust the stack. */
const DEEPEST = 64;

/** Parses the body of a request, whatever its Content-Type says (docs/go-manager.md#http). */
export function parseJson(body: Uint8Array): unknown {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(body);
  } catch (cause) {
    throw new JsonError('the body is not UTF-8 text', { cause });
  }
  if (text.trim() === '') throw new JsonError('the body is empty: a JSON object is expected');
  if (depthOf(text) > DEEPEST) throw new JsonError(`the body is nested more than ${DEEPEST} levels deep`);
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new JsonError(`the body is not JSON: ${cause instanceof Error ? cause.message : 'unreadable'}`, { cause });
  }
}

/** Levels of brackets outside strings; exact for valid JSON, an upper bound otherwise. */
function depthOf(text: string): number {
  let depth = 0;
  let deepest = 0;
  let inString = false;
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (inString) {
      if (c === 0x5c) i++;
      else if (c === 0x22) inString = false;
    } else if (c === 0x22) inString = true;
    else if (c === 0x5b || c === 0x7b) deepest = Math.max(deepest, ++depth);
    else if (c === 0x5d || c === 0x7d) depth--;
  }
  return deepest;
}

/**
 * Freezes a parsed JSON value with everything inside, so that readers can share it. Assumes that a frozen object is frozen
 * inside too.
 */
export function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  for (const inner of Object.values(value)) deepFreeze(inner);
  return Object.freeze(value);
}
