import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { readPage } from '../../tools/check-docs-page.ts';
import { helmProgram, programs } from './programs.ts';

export const CHECKOUT = fileURLToPath(new URL('../..', import.meta.url));
export const CHART = join(CHECKOUT, 'deploy/helm/oscar');

/** Returns the only code block of a page that contains this command. */
export function documented(page: string, command: string): string {
  const { blocks } = readPage(readFileSync(join(CHECKOUT, page), 'utf8'));
  const [found, ...others] = blocks.filter(({ info, text }) => info === 'sh' && text.includes(command));
  if (!found || others.length > 0) throw new Error(`${page} has ${others.length || 'no'} blocks with ${command}`);
  return found.text;
}

/** Runs commands as an operator does, with their kubeconfig. Returns the output; throws if a command fails. */
export interface Operator {
  helm(...args: readonly string[]): Promise<string>;
  kubectl(input: string, ...args: readonly string[]): Promise<string>;
  /** Runs commands of the documentation, by default in the operator's directory. */
  shell(commands: string, place?: string): Promise<string>;
}

/** `directory` is for caches of the commands and for files that they write. */
export async function operator(kubeconfig: string, directory: string): Promise<Operator> {
  const [helm, { kube }] = [await helmProgram((line) => process.stderr.write(`${line}\n`)), await programs()];
  const env = {
    PATH: [join(directory, 'bin'), process.env['PATH']].join(delimiter),
    KUBECONFIG: kubeconfig,
    HOME: directory,
    HELM_CACHE_HOME: join(directory, 'helm-cache'),
    HELM_CONFIG_HOME: join(directory, 'helm-config'),
    HELM_DATA_HOME: join(directory, 'helm-data'),
  };
  mkdirSync(join(directory, 'bin'), { recursive: true });
  for (const [name, command] of Object.entries({ helm, kubectl: `${kube} kubectl` }))
    writeFileSync(join(directory, 'bin', name), `#!/bin/sh\nexec ${command} "$@"\n`, { mode: 0o755 });
  return {
    helm: (...args) => run(helm, args, env),
    kubectl: (input, ...args) => run(kube, ['kubectl', ...args], env, input),
    // If its standard input is a socket, bash assumes a remote login and would read the startup files of interactive
    // shells.
    shell: (commands, place = directory) => run('bash', ['--norc', '-euo', 'pipefail', '-c', commands], env, '', place),
  };
}

async function run(
  program: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  input = '',
  cwd = CHECKOUT,
): Promise<string> {
  const running = promisify(execFile)(program, args, { env, cwd, maxBuffer: 2 ** 26, timeout: 120_000 });
  running.child.stdin?.end(input);
  try {
    return (await running).stdout;
  } catch (error) {
    const said = error instanceof Error && 'stderr' in error ? String(error.stderr) : String(error);
    throw new Error(`${args.join(' ')} failed: ${said}`, { cause: error });
  }
}
