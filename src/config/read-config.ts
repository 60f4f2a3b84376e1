import { CHECKS } from './checks.ts';
import { ConfigError } from './config-error.ts';
import { CONFIG_FILE, readConfigFile } from './config-file.ts';
import type { Files } from './kinds/kind.ts';
import { isComplete } from './kinds/record.ts';
import { type Config, SETTINGS } from './settings.ts';
import { type Environment, SettingsReader } from './settings-reader.ts';

/**
 * The settings of this manager, from the environment and from the file that `OSCAR_CONFIG` names; the environment wins.
 * Throws one `ConfigError` with everything that is wrong.
 *
 * @example
 * const config = readConfig(process.env, (name) => readFileSync(name, 'utf8'));
 */
export function readConfig(environment: Environment, files: Files): Config {
  const file = readConfigFile(environment[CONFIG_FILE]?.trim() || undefined, files);
  const settings = new SettingsReader(environment, file.given, files);
  const problems = [...file.problems];
  const values: Record<string, unknown> = {};
  for (const [key, setting] of Object.entries(SETTINGS)) {
    const parsed = settings.read(setting);
    if ('value' in parsed) values[key] = parsed.value;
    else problems.push(...settings.describe(setting, parsed.problems));
  }
  if (file.readable) problems.push(...CHECKS.map((check) => check(values)).filter((found) => found !== undefined));
  if (problems.length > 0 || !isComplete(values, SETTINGS)) throw new ConfigError(problems);
  return values;
}
