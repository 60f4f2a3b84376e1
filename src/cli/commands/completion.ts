import type { Command } from 'commander';
import { act, plainCommand, type Register } from './command.ts';

export const completion: Register = (program, env) => {
  const command = plainCommand(
    program,
    'completion <shell>',
    'print a completion script: source <(oscar completion bash)',
  );
  act(command, env, (session, [shell]) => {
    if (shell !== 'bash') command.error(`error: there is no completion for "${shell}", only for bash`, { exitCode: 2 });
    session.terminal.print(bashScript(program));
  });
};

/** The words that can follow each command. */
function wordsAfter(command: Command, path: string): [path: string, words: string[]][] {
  const below = command.commands.filter((each) => each.name() !== 'help');
  const options = command.options.flatMap(({ long }) => long ?? []);
  return [
    [path, [...below.map((each) => each.name()), ...options, '--help']],
    ...below.flatMap((each) => wordsAfter(each, `${path} ${each.name()}`.trim())),
  ];
}

function bashScript(program: Command): string {
  const cases = wordsAfter(program, '').map(([path, words]) => `    "${path}") words="${words.join(' ')}" ;;`);
  return `_oscar() {
  local path="" words="" word i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word="\${COMP_WORDS[i]}"
    case "$word" in -*) continue ;; esac
    _oscar_words "\${path:+$path }$word" || break
    path="\${path:+$path }$word"
  done
  _oscar_words "$path"
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
  [ \${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- "\${COMP_WORDS[COMP_CWORD]}"))
}
_oscar_words() {
  case "$1" in
${cases.join('\n')}
    *) return 1 ;;
  esac
}
complete -o filenames -F _oscar oscar`;
}
