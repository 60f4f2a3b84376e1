/**
 * Removing characters from the ends of a text in linear time. A pattern such as `/-+$/` takes quadratic time on a text
 * with a long run of them in its middle, because it is tried from every character of the run.
 */

/** The text without what `isDropped` matches at its end. */
export function trimEnd(text: string, isDropped: (character: string) => boolean): string {
  let end = text.length;
  while (end > 0 && isDropped(text.charAt(end - 1))) end--;
  return text.slice(0, end);
}

/** The same at both ends. */
export function trimEnds(text: string, isDropped: (character: string) => boolean): string {
  const kept = trimEnd(text, isDropped);
  let start = 0;
  while (start < kept.length && isDropped(kept.charAt(start))) start++;
  return kept.slice(start);
}

export const isSlash = (character: string) => character === '/';

/** As `\s` and `String.trim` have it. */
export const isBlank = (character: string) => character.trim() === '';
