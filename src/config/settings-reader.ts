import type { Given } from './config-file.ts';
import { type Context, type Files, isBlank, type Parsed, type Problem } from './kinds/kind.ts';
import type { Setting } from './setting.ts';
import { SETTINGS } from './settings.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

const BY_NAME: ReadonlyMap<string, Setting> = new Map(Object.values(SETTINGS).map((each) => [each.name, each]));

/** Reads settings one by one; each is parsed once, because others may depend on it. */
export class SettingsReader implements Context {
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

  /** The lines about one setting. */
  describe({ name }: Setting, problems: readonly Problem[]): string[] {
    const where = this.#given(name)?.where ?? '';
    return problems.map(({ path, text }) => `${where}${name}${path} ${text}`);
  }

  #given(name: string): Given | undefined {
    const raw = this.#environment[name];
    if (!isBlank(raw)) return { raw, where: '' };
    const given = this.#fromFile.get(name);
    return isBlank(given?.raw) ? undefined : given;
  }

  #parse(setting: Setting): Parsed<unknown> {
    const given = this.#given(setting.name);
    if (given) return setting.kind.parse(given.raw, this);
    if (setting.default === undefined) return { value: undefined };
    const text = this.#default(setting.default);
    return text === undefined ? { problems: [] } : setting.kind.parse(text, this);
  }

  /** Undefined when it depends on a setting that is wrong. */
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
