import {
  type Document,
  type DocumentOptions,
  isMap,
  isNode,
  LineCounter,
  type ParseOptions,
  parseDocument,
  type SchemaOptions,
} from 'yaml';
import { type Context, type Parsed, problem, type Raw, type SettingKind } from './kind.ts';

/**
 * Scalars are not resolved (`0123` stays `0123`, `true` is the text `true`), because the kind of each setting parses its
 * own text. Only an empty value and `null` are special.
 */
const OPTIONS: ParseOptions & DocumentOptions & SchemaOptions = {
  schema: 'failsafe',
  customTags: ['null'],
  stringKeys: true,
  prettyErrors: false,
};

interface Loaded {
  readonly raw: Raw;
  readonly document: Document;
  readonly lines: LineCounter;
}

function load(text: string): Parsed<Loaded> {
  const lines = new LineCounter();
  const document = parseDocument(text, { ...OPTIONS, lineCounter: lines });
  const [error] = document.errors;
  if (error) {
    const { line, col } = lines.linePos(error.pos[0]);
    return problem(`is not YAML, line ${line}, column ${col}: ${stripQuotedText(error.message)}`);
  }
  try {
    const raw: Raw = document.toJS({ mapAsMap: true });
    return { value: { raw, document, lines } };
  } catch (unresolved) {
    return problem(`is not YAML: ${stripQuotedText(String(unresolved))}`);
  }
}

/** The parser's messages quote the invalid text, which may be a password. */
function stripQuotedText(message: string): string {
  return message.replace(/^ReferenceError: /, '').replace(/[:;\\].*/s, '');
}

export function parseYaml(text: string): Parsed<Raw> {
  const loaded = load(text);
  return 'problems' in loaded ? loaded : { value: loaded.value.raw };
}

/** A key of a YAML map: its value and its position. */
interface Entry {
  readonly raw: Raw;
  readonly line: number;
  readonly column: number;
}

/** Parses a YAML map with the positions of its keys. An empty text is an empty map. */
export function parseYamlMap(text: string): Parsed<ReadonlyMap<string, Entry>> {
  const loaded = load(text);
  if ('problems' in loaded) return loaded;
  const { raw, document, lines } = loaded.value;
  if (raw === null) return { value: new Map() };
  if (!(raw instanceof Map) || !isMap(document.contents)) return problem('is not a map');
  const entries = new Map<string, Entry>();
  for (const { key } of document.contents.items) {
    const { line, col } = lines.linePos(isNode(key) ? (key.range?.[0] ?? 0) : 0);
    const name = String(key);
    entries.set(name, { raw: raw.get(name) ?? null, line, column: col });
  }
  return { value: entries };
}

export function readText(name: string, { files }: Pick<Context, 'files'>): Parsed<string> {
  try {
    return { value: files(name) };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return problem(`is ${JSON.stringify(name)}, a file that cannot be read: ${reason}`);
  }
}

/** A map (as YAML in a variable, or inside the settings file), or the name of a YAML file. A single word is a file name. */
export function mapOrFile<T>(map: SettingKind<T>): SettingKind<T> {
  const accepts = `the name of a YAML file, or YAML: ${map.accepts}`;
  return {
    accepts,
    parse(raw, context) {
      if (typeof raw !== 'string') return map.parse(raw, context);
      const inPlace = parseYaml(raw);
      if ('problems' in inPlace || typeof inPlace.value !== 'string') {
        return 'problems' in inPlace ? inPlace : map.parse(inPlace.value, context);
      }
      const name = inPlace.value;
      const text = readText(name, context);
      if ('problems' in text) return text;
      const inFile = parseYaml(text.value);
      if ('value' in inFile && inFile.value instanceof Map) return map.parse(inFile.value, context);
      const reason = 'value' in inFile ? `is not ${map.accepts}` : inFile.problems[0]?.text;
      return problem(`is ${JSON.stringify(name)}, which ${reason}`);
    },
  };
}
