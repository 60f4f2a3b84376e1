import { VERSION } from '../../lib/product-version.ts';
import { act, plainCommand, type Register } from './command.ts';

export const versionVerb: Register = (program, env) => {
  act(plainCommand(program, 'version', 'print the version'), env, (session) =>
    session.terminal.print(`oscar ${VERSION}`),
  );
};
