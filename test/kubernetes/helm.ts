import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { helmProgram, programs } from './programs.ts';

export const CHART = fileURLToPath(new URL('../../deploy/helm/oscar', import.meta.url));

/** Runs commands as an operator would, with their kubeconfig. What a command prints is given; one that fails throws. */
export interface Operator {
  helm(...args: readonly string[]): Promise<string>;
  kubectl(input: string, ...args: readonly string[]): Promise<string>;
}

/** `directory` is for what they like to remember between commands. */
export async function operator(kubeconfig: string, directory: string): Promise<Operator> {
  const [helm, { kube }] = [await helmProgram((line) => process.stderr.write(`${line}\n`)), await programs()];
  const env = {
    PATH: process.env['PATH'],
    KUBECONFIG: kubeconfig,
    HOME: directory,
    HELM_CACHE_HOME: join(directory, 'helm-cache'),
    HELM_CONFIG_HOME: join(directory, 'helm-config'),
    HELM_DATA_HOME: join(directory, 'helm-data'),
  };
  return {
    helm: (...args) => run(helm, args, env),
    kubectl: (input, ...args) => run(kube, ['kubectl', ...args], env, input),
  };
}

async function run(program: string, args: readonly string[], env: NodeJS.ProcessEnv, input = ''): Promise<string> {
  const running = promisify(execFile)(program, args, { env, maxBuffer: 2 ** 26, timeout: 120_000 });
  running.child.stdin?.end(input);
  try {
    return (await running).stdout;
  } catch (error) {
    const said = error instanceof Error && 'stderr' in error ? String(error.stderr) : String(error);
    throw new Error(`${args.join(' ')} failed: ${said}`, { cause: error });
  }
}
