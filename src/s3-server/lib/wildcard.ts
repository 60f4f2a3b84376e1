const ANY = Symbol('any characters');
const ONE = Symbol('one character');

type Token = string | typeof ANY | typeof ONE;

/** `${*}`, `${?}` and `${$}` stand for the characters themselves (IAM's policy variables). */
const PARTS = /\$\{([*?$])\}|[^]/g;

export type TextMatcher = (text: string) => boolean;

/**
 * Compiles a pattern of IAM: `*` matches any characters, `?` one. Matching never backtracks: it takes a step for each
 * character of the text, and each step handles 32 characters of the pattern at once.
 *
 * @example
 * const matches = compileWildcard('photos/*.png');
 * matches('photos/cow.png');   // true
 */
export function compileWildcard(pattern: string): TextMatcher {
  const tokens = tokenize(pattern);
  const wild = tokens.findIndex((token) => typeof token !== 'string');
  const literal = tokens.slice(0, wild < 0 ? tokens.length : wild).join('');
  if (wild < 0) return (text) => text === literal;
  if (wild === tokens.length - 1 && tokens[wild] === ANY) return (text) => text.startsWith(literal);
  const shortest = tokens.filter((token) => token !== ANY).length;
  // The two checks are cheap and reject most patterns of a policy, so the states are computed only when they are needed.
  return (text) => text.length >= shortest && text.startsWith(literal) && simulate(tokens, text);
}

/** Several `*` in a row are one. */
function tokenize(pattern: string): Token[] {
  const tokens: Token[] = [];
  for (const [part, itself] of pattern.matchAll(PARTS)) {
    const token = itself ?? (part === '*' ? ANY : part === '?' ? ONE : part);
    if (token !== ANY || tokens.at(-1) !== ANY) tokens.push(token);
  }
  return tokens;
}

/**
 * Runs the pattern as a nondeterministic automaton (Shift-And, Baeza-Yates and Gonnet 1992): bit i of the state says that the
 * text so far matches the first i tokens.
 */
function simulate(tokens: readonly Token[], text: string): boolean {
  const words = (tokens.length >>> 5) + 1;
  const stars = new Uint32Array(words);
  const ones = new Uint32Array(words);
  const literals = new Map<string, Uint32Array>();
  for (const [at, token] of tokens.entries()) setBit(maskFor(token), at);

  const state = new Uint32Array(words);
  state[0] = 1;
  skipStars(state, stars);
  for (let i = 0; i < text.length; i++) {
    const literal = literals.get(text.charAt(i));
    let carry = 0;
    for (let word = 0; word < words; word++) {
      const before = state[word] ?? 0;
      const moved = before & ((literal?.[word] ?? 0) | (ones[word] ?? 0));
      state[word] = (moved << 1) | carry | (before & (stars[word] ?? 0));
      carry = moved >>> 31;
    }
    skipStars(state, stars);
  }
  return hasBit(state, tokens.length);

  function maskFor(token: Token): Uint32Array {
    if (token === ANY) return stars;
    if (token === ONE) return ones;
    const known = literals.get(token) ?? new Uint32Array(words);
    literals.set(token, known);
    return known;
  }
}

/** A `*` may match nothing: what comes after it is reached too. */
function skipStars(state: Uint32Array, stars: Uint32Array): void {
  let carry = 0;
  for (let word = 0; word < state.length; word++) {
    const waiting = (state[word] ?? 0) & (stars[word] ?? 0);
    state[word] = (state[word] ?? 0) | (waiting << 1) | carry;
    carry = waiting >>> 31;
  }
}

function setBit(words: Uint32Array, bit: number): void {
  words[bit >>> 5] = (words[bit >>> 5] ?? 0) | (1 << (bit & 31));
}

const hasBit = (words: Uint32Array, bit: number) => ((words[bit >>> 5] ?? 0) & (1 << (bit & 31))) !== 0;
