import { SCRIPT_VIEW } from '../../../../supervisor/index.ts';
import type { Attempt } from '../../../attempt.ts';

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

/** What the script sees (contract §8.2). */
export function environmentOf({ name: secret, environment, input }: Attempt): Environment {
  const paths = {
    TMP_INPUT_DIR: SCRIPT_VIEW.input,
    TMP_OUTPUT_DIR: SCRIPT_VIEW.output,
    ...(input.kind !== 'none' && { INPUT_FILE_PATH: `${SCRIPT_VIEW.input}/${input.name}` }),
  };
  const hidden: Record<string, string> = {};
  const all: Attempt['environment'] = { ...environment, ...paths };
  const given = Object.entries(all).filter(([name]) => NAME.test(name));
  const variables = given.map(([name, value]): Variable => {
    // Only Kubernetes knows which node it will be.
    if (name === 'RESOURCE_ID') return { name, valueFrom: { fieldRef: { fieldPath: 'spec.nodeName' } } };
    if (typeof value === 'string' && Buffer.byteLength(value) <= LARGEST_IN_POD)
      return { name, value: verbatim(value) };
    hidden[`env.${name}`] = typeof value === 'string' ? value : value.reveal();
    return { name, valueFrom: { secretKeyRef: { name: secret, key: `env.${name}` } } };
  });
  return { variables, hidden };
}

/** Kubernetes puts other values in for `$(NAME)`, unless the sign is there twice. */
export const verbatim = (text: string) => text.replaceAll('$', '$$$$');
