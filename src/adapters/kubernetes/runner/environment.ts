import type { Attempt } from '../../../model/job/index.ts';
import { SCRIPT_VIEW } from '../../../staging/index.ts';

/** An environment variable of a container, in the format of Kubernetes. */
export type Variable =
  | { readonly name: string; readonly value: string }
  | { readonly name: string; readonly valueFrom: Readonly<Record<string, unknown>> };

/** Larger values are stored in the Secret, because every list of pods contains the values in the pod spec. */
const LARGEST_IN_POD = 2_048;

/** Names that can be a variable and a key of a Secret. A shell could not read others. */
const NAME = /^[A-Za-z_.-][A-Za-z0-9_.-]{0,240}$/;

interface Environment {
  readonly variables: readonly Variable[];
  /** Entries of the attempt's Secret. */
  readonly hidden: Readonly<Record<string, string>>;
}

/** The name of the node, which only Kubernetes knows. */
export const NODE_NAME: Variable = { name: 'RESOURCE_ID', valueFrom: { fieldRef: { fieldPath: 'spec.nodeName' } } };

/** The environment of the script (docs/jobs.md#what-the-script-sees). */
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
 * The same environment for a warm pod, whose spec cannot change any more: a shell script that starts the service's script. It
 * uses `env`, because the shell does not accept every name and interprets some variables itself.
 */
export function buildLaunchScript(attempt: Attempt): string {
  const given = scriptVariables(attempt).filter(([name]) => name !== NODE_NAME.name);
  const words = given.map(([name, value]) =>
    quoteForShell(`${name}=${typeof value === 'string' ? value : value.reveal()}`),
  );
  return `exec env -- ${words.join(' ')} /bin/sh ${SCRIPT_VIEW.script}\n`;
}

/** Quotes a text as one literal word for a shell. */
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

/** Kubernetes replaces `$(NAME)` with a value, unless the dollar sign is doubled. */
export const escapeDollars = (text: string) => text.replaceAll('$', '$$$$');
