import { VERSION } from '../version.ts';
import { act, plainCommand, type Register } from './command.ts';

export const version: Register = (program, env) => {
  act(plainCommand(program, 'version', 'say which version this is'), env, (session) =>
    session.terminal.print(`oscar ${VERSION}`),
  );
};
