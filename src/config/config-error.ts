import { OscarError } from '../base/oscar-error.ts';

/** The manager cannot start like this. Names everything that is wrong, so that one correction is enough. */
export class ConfigError extends OscarError<'invalid-config'> {
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    const head = problems.length === 1 ? 'a problem' : `${problems.length} problems`;
    super('invalid-config', [`the configuration has ${head}:`, ...problems].join('\n  '));
    this.problems = problems;
  }
}
