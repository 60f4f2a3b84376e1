import type { Attempt } from '../../../model/job/index.ts';
import { SCRIPT_VIEW } from '../../../staging/index.ts';

/** A variable of a container, as Kubernetes has it. */
export type Variable =
  | { readonly name: string; readonly value: string }
  | { readonly name: string; readonly valueFrom: Readonly<Record<string, unknown>> };

/** Larger values are in the Secret too: a manager has thousands of pods in mind, and everybody who lists them gets them. */
const LARGEST_IN_POD = 2_048;

/** What can be a variable, and the name of an entry in a Secret. A shell could not read others. */
const NAME = /^[A-Za-z_.-][A-Za-z0-9_.-]{0,240}$/;

interface Environment {
  readonly variables: readonly Variable[];
  /** What goes into the Secret of that name. */
  readonly hidden: Readonly<Record<string, string>>;
}

/** Only Kubernetes knows which node it will be. */
export const NODE_NAME: Variable = { name: 'RESOURCE_ID', valueFrom: { fieldRef: { fieldPath: 'spec.nodeName' } } };

/** What the script sees (docs/jobs.md#what-the-script-sees). */
export function buildEnvironment(attempt: Attempt): Environment {
  const { name: secret } = attempt;
  const hidden: Record<string, string> = {};
  const variables = scriptVariables(attempt).map(([name, value]): Variable => {
    if (name === NODE_NAME.name) return NODE_NAME;
    if (typeof value === 'string' && Buffer.byteLength(value) <= LARGEST_IN_POD)
      return { name, value: escapeDollars(value) };
    hidden[`env.${name}`] = typeof value === 'string' ? value : value.reveal();
    return { name, valueFrom: { secretKeyRef: { name: secret, key: `env.${name}` } } };
  });
  return { variables, hidden };
}

/**
 * The same for a script in a pod that has waited, where Kubernetes cannot put it any more: a program for the shell. By
 * `env` and not by the shell itself, which takes not every name, and some values for its own.
 */
export function buildLaunchScript(attempt: Attempt): string {
  const given = scriptVariables(attempt).filter(([name]) => name !== NODE_NAME.name);
  const words = given.map(([name, value]) =>
    quoteForShell(`${name}=${typeof value === 'string' ? value : value.reveal()}`),
  );
  return `exec env -- ${words.join(' ')} /bin/sh ${SCRIPT_VIEW.script}\n`;
}

/** As one word for a shell, which takes nothing in it for something else. */
const quoteForShell = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;

function scriptVariables({ environment, input }: Attempt): [name: string, value: Attempt['environment'][string]][] {
  const all: Attempt['environment'] = {
    ...environment,
    TMP_INPUT_DIR: SCRIPT_VIEW.input,
    TMP_OUTPUT_DIR: SCRIPT_VIEW.output,
    ...(input.kind !== 'none' && { INPUT_FILE_PATH: `${SCRIPT_VIEW.input}/${input.name}` }),
  };
  return Object.entries(all).filter(([name]) => NAME.test(name));
}

/** Kubernetes puts other values in for `$(NAME)`, unless the sign is there twice. */
export const escapeDollars = (text: string) => text.replaceAll('$', '$$$$');
