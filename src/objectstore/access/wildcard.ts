const ANY = Symbol('any characters');
const ONE = Symbol('one character');

type Token = string | typeof ANY | typeof ONE;

/** `${*}`, `${?}` and `${$}` stand for the characters themselves (IAM's policy variables). */
const PARTS = /\$\{([*?$])\}|[^]/g;

function tokensOf(pattern: string): Token[] {
  return Array.from(pattern.matchAll(PARTS), ([part, itself]) => {
    if (itself !== undefined) return itself;
    return part === '*' ? ANY : part === '?' ? ONE : part;
  });
}

/** `*` stands for any characters, `?` for one: IAM's patterns. Linear in the text, so that no pattern is a trap. */
export function matches(pattern: string, text: string): boolean {
  const tokens = tokensOf(pattern);
  let p = 0;
  let t = 0;
  let star = -1;
  let resume = 0;
  while (t < text.length) {
    const token = tokens[p];
    if (token === ANY) {
      star = p++;
      resume = t;
    } else if (token !== undefined && (token === ONE || token === text[t])) {
      p++;
      t++;
    } else if (star >= 0) {
      p = star + 1;
      t = ++resume;
    } else return false;
  }
  while (tokens[p] === ANY) p++;
  return p === tokens.length;
}
