import { closest } from '../lib/closest.ts';
import { OscarError } from '../lib/oscar-error.ts';
import { CHECKS } from './checks.ts';
import type { Setting } from './groups/setting.ts';
import {
  type Context,
  type Files,
  isComplete,
  isEmptyValue,
  type Parsed,
  type Raw,
  type SettingProblem,
  shownKey,
} from './kinds/kind.ts';
import { parseYamlMap, readText } from './kinds/yaml.ts';
import { type Config, SETTINGS } from './settings.ts';

/**
 * Reads the settings from the environment and from the file that `OSCAR_CONFIG` names; the environment takes precedence.
 * Throws one `ConfigError` with all problems.
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

type Environment = Readonly<Record<string, string | undefined>>;

const BY_NAME: ReadonlyMap<string, Setting> = new Map(Object.values(SETTINGS).map((each) => [each.name, each]));

/** Parses settings on demand, each one once, because others may depend on it. */
class SettingsReader implements Context {
  readonly files: Files;
  readonly #environment: Environment;
  readonly #fromFile: ReadonlyMap<string, Given>;
  readonly #parsed = new Map<string, Parsed<unknown>>();

  constructor(environment: Environment, fromFile: ReadonlyMap<string, Given>, files: Files) {
    this.#environment = environment;
    this.#fromFile = fromFile;
    this.files = files;
  }

  read(setting: Setting): Parsed<unknown> {
    const known = this.#parsed.get(setting.name) ?? this.#parse(setting);
    this.#parsed.set(setting.name, known);
    return known;
  }

  valueOf(variable: string): unknown {
    const setting = BY_NAME.get(variable);
    const parsed = setting && this.read(setting);
    return parsed && 'value' in parsed ? parsed.value : undefined;
  }

  /** One line for each problem of a setting. */
  describe({ name }: Setting, problems: readonly SettingProblem[]): string[] {
    const where = this.#given(name)?.where ?? '';
    return problems.map(({ path, text }) => `${where}${name}${path} ${text}`);
  }

  #given(name: string): Given | undefined {
    const raw = this.#environment[name];
    if (!isEmptyValue(raw)) return { raw, where: '' };
    const given = this.#fromFile.get(name);
    return isEmptyValue(given?.raw) ? undefined : given;
  }

  #parse(setting: Setting): Parsed<unknown> {
    const given = this.#given(setting.name);
    if (given) return setting.kind.parse(given.raw, this);
    if (setting.default === undefined) return { value: undefined };
    const text = this.#default(setting.default);
    return text === undefined ? { problems: [] } : setting.kind.parse(text, this);
  }

  /** Undefined if it depends on an invalid setting. */
  #default(given: NonNullable<Setting['default']>): string | undefined {
    const backend = typeof given === 'string' ? 'local' : this.valueOf('OSCAR_BACKEND');
    if (backend !== 'local' && backend !== 'kubernetes') return undefined;
    const text = typeof given === 'string' ? given : given[backend];
    const [, variable] = /<(\w+)>/.exec(text) ?? [];
    if (variable === undefined) return text;
    const value = this.valueOf(variable);
    return typeof value === 'number' ? text.replace(`<${variable}>`, `${value}`) : undefined;
  }
}

/** Names the settings file. It is read from the environment only. */
const CONFIG_FILE = 'OSCAR_CONFIG';

/** A value that was set. `where` is its position in the file, with which the line of a problem begins. */
interface Given {
  readonly raw: Raw;
  readonly where: string;
}

interface ConfigFile {
  readonly given: ReadonlyMap<string, Given>;
  readonly problems: readonly string[];
  /** If false, the checks are skipped, because settings that seem to be missing may be in the file. */
  readonly readable: boolean;
}

const NAMES = Object.values(SETTINGS).map((setting) => setting.name);

function readConfigFile(name: string | undefined, files: Files): ConfigFile {
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

/** Settings of the Go manager that have no effect here. They are accepted and ignored. */
export const IGNORED: readonly { readonly names: readonly string[]; readonly why: string }[] = [
  {
    names: [
      'WATCHDOG_MAX_INFLIGHT',
      'WATCHDOG_WRITE_DEBUG',
      'WATCHDOG_EXEC_TIMEOUT',
      'WATCHDOG_READ_TIMEOUT',
      'WATCHDOG_WRITE_TIMEOUT',
      'WATCHDOG_HEALTHCHECK_INTERVAL',
    ],
    why: 'They configure fwatchdog, which is not used: this manager runs the script itself.',
  },
  {
    names: ['YUNIKORN_NAMESPACE', 'YUNIKORN_CONFIGMAP', 'YUNIKORN_CONFIG_FILENAME'],
    why: 'YuniKorn is not supported yet.',
  },
  {
    names: ['STORAGE_CLASS_NAME', 'VOLUME_AVAILABLE', 'VOLUME_MAX', 'VOLUME_MAX_DISK', 'VOLUME_MIN_DISK'],
    why: 'Volumes are not supported yet.',
  },
  { names: ['MINIO_QUOTA_BUCKETS', 'MINIO_QUOTA_STORAGE'], why: 'Quotas are not supported yet.' },
  {
    names: [
      'INGRESS_HOST',
      'EXPOSED_SERVICES_ROUTE_KIND',
      'HTTPROUTE_GATEWAY_NAME',
      'HTTPROUTE_GATEWAY_NAMESPACE',
      'INGRESS_SERVICES_CORS_ALLOWED_ORIGINS',
      'INGRESS_SERVICES_CORS_ALLOWED_METHODS',
      'INGRESS_SERVICES_CORS_ALLOWED_HEADERS',
      'LOKI_EXPOSED_QUERY',
      'LOKI_EXPOSED_NAMESPACE',
      'LOKI_EXPOSED_APP',
      'LOKI_EXPOSED_APP_LABEL',
    ],
    why: 'Exposed services are not supported yet.',
  },
  { names: ['SUPERVISOR_KIT_IMAGE'], why: 'interLink is not supported yet.' },
  {
    names: ['PROMETHEUS_URL', 'PROMETHEUS_CPU_QUERY', 'PROMETHEUS_GPU_QUERY', 'LOKI_URL', 'LOKI_QUERY'],
    why: 'Metrics and logs come from the job records of the manager.',
  },
  { names: ['OIDC_SUBJECT'], why: 'The Go manager reads it but does not use it.' },
];

export const IGNORED_NAMES: readonly string[] = IGNORED.flatMap(({ names }) => names);

/** The manager cannot start. The message lists all problems, so that the operator can correct them at once. */
export class ConfigError extends OscarError<'invalid-config'> {
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    const head = problems.length === 1 ? 'a problem' : `${problems.length} problems`;
    super('invalid-config', [`the configuration has ${head}:`, ...problems].join('\n  '));
    this.problems = problems;
  }
}
