import { closest } from '../base/closest.ts';
import { IGNORED_NAMES } from './ignored.ts';
import { type Files, type Raw, shownKey } from './kinds/kind.ts';
import { SETTINGS } from './settings.ts';
import { parseYamlMap, readText } from './yaml.ts';

/** Names the file of settings. Only the environment has it. */
export const CONFIG_FILE = 'OSCAR_CONFIG';

/** A value that was given, and where, as the beginning of a problem's line. */
export interface Given {
  readonly raw: Raw;
  readonly where: string;
}

export interface ConfigFile {
  readonly given: ReadonlyMap<string, Given>;
  readonly problems: readonly string[];
  /** When it is not, nobody knows what is missing. */
  readonly readable: boolean;
}

const NAMES = Object.values(SETTINGS).map((setting) => setting.name);

export function readConfigFile(name: string | undefined, files: Files): ConfigFile {
  if (name === undefined) return { given: new Map(), problems: [], readable: true };
  const text = readText(name, { files });
  const entries = 'value' in text ? parseYamlMap(text.value) : text;
  if ('problems' in entries) {
    const subject = 'value' in text ? `${CONFIG_FILE} is "${name}", which` : CONFIG_FILE;
    const problems = entries.problems.map((problem) => `${subject} ${problem.text}`);
    return { given: new Map(), problems, readable: false };
  }
  const given = new Map<string, Given>();
  const problems: string[] = [];
  for (const [key, { raw, line, column }] of entries.value) {
    const where = `${name}, line ${line}, column ${column}: `;
    if ((NAMES as string[]).includes(key)) given.set(key, { raw, where });
    else if (!IGNORED_NAMES.includes(key))
      problems.push(`${where}${shownKey(key)} is not a setting${closest(key, NAMES)}`);
  }
  return { given, problems, readable: true };
}
