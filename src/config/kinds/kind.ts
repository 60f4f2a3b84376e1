/** Gives the text of a file, or throws as `readFileSync` does. */
export type Files = (name: string) => string;

/** A value as it is given: text from the environment; text, list or map from YAML, where scalars stay as written. */
export type Raw = string | null | Raw[] | Map<string, Raw>;

/** `path` leads from the setting to the place inside it; `text` goes on from there: `is "x"; accepted is …`. */
export interface Problem {
  readonly path: string;
  readonly text: string;
}

/** Without problems and without a value: it depends on another setting, and that one has the problem. */
export type Parsed<T> = { readonly value: T } | { readonly problems: readonly Problem[] };

export interface Context {
  readonly files: Files;
  /** The parsed value of another setting, by its variable; undefined when it has none or is wrong. */
  valueOf(variable: string): unknown;
}

/** What kind of value a setting takes. */
export interface Kind<T> {
  /** Ends the sentence "accepted is …", in problems and in the documentation. */
  readonly accepts: string;
  parse(raw: Raw, context: Context): Parsed<T>;
}

/** An empty value counts as none. */
export const isBlank = (raw: Raw | undefined): raw is '' | null | undefined =>
  raw === undefined || raw === null || (typeof raw === 'string' && raw.trim() === '');

export function problem(text: string, path = ''): { problems: Problem[] } {
  return { problems: [{ path, text }] };
}

export function refused(raw: Raw, accepts: string): { problems: Problem[] } {
  return problem(`is ${shown(raw)}; accepted is ${accepts}`);
}

/** Long enough to recognise what one wrote; a pasted certificate would fill the screen. */
const LONGEST_SHOWN = 80;

/** A value as a problem shows it. Credentials inside a URL are nobody's business. */
export function shown(raw: Raw): string {
  if (raw === null) return 'empty';
  if (Array.isArray(raw)) return 'a list';
  if (raw instanceof Map) return 'a map';
  const safe = raw.replace(/\/\/[^/]*@/g, '//[secret]@');
  return JSON.stringify(safe.length > LONGEST_SHOWN ? `${safe.slice(0, LONGEST_SHOWN)}…` : safe);
}

/** `{secret_key:abc}`, without a blank after the colon, is one long key with the secret in it. */
export function shownKey(key: string): string {
  return key.replace(/:.*/s, ':…');
}

/** A kind that is written as one word or line; `read` gives undefined for what it does not accept. */
export function scalar<T>(accepts: string, read: (text: string) => T | undefined): Kind<T> {
  return {
    accepts,
    parse(raw) {
      const value = typeof raw === 'string' ? read(raw.trim()) : undefined;
      return value === undefined ? refused(raw, accepts) : { value };
    },
  };
}

/** Separated by commas, or a YAML list. Blank items are dropped, so that a trailing comma does no harm. */
export function listOf<T>(accepts: string, read: (item: string) => T | undefined): Kind<readonly T[]> {
  return {
    accepts,
    parse(raw) {
      const items = typeof raw === 'string' ? raw.split(',') : raw;
      if (!Array.isArray(items)) return refused(raw, accepts);
      const value: T[] = [];
      const wrong: Raw[] = [];
      for (const item of items.filter((each) => !isBlank(each))) {
        const read1 = typeof item === 'string' ? read(item.trim()) : undefined;
        if (read1 === undefined) wrong.push(item);
        else value.push(read1);
      }
      return wrong.length === 0
        ? { value }
        : problem(`contains ${wrong.map(shown).join(', ')}; accepted is ${accepts}`);
    },
  };
}
