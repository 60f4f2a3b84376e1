/** Longer ones are for logs. */
const MOST_CHARACTERS = 500;

/** What another cluster wrote, as it can be shown: one line, not too long, and nothing that a terminal would obey. */
export function inOneLine(text: string): string {
  const line = text.replace(/[\p{Cc}\p{Cf}\p{Z}]+/gu, ' ').trim();
  return line.length > MOST_CHARACTERS ? `${line.slice(0, MOST_CHARACTERS)}…` : line;
}

/** The reason of an end: one word for programs. */
export const inOneWord = (text: string, otherwise: string): string =>
  /^[A-Za-z]{1,40}$/.test(text) ? text : otherwise;
