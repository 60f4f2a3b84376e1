import { labelKeyProblem, labelValueProblem } from '../../model/service/index.ts';
import { listOf } from './kind.ts';

/** Labels that a node must have, each with its value. */
export const nodeLabels = listOf('labels such as `oscar=jobs`, separated by commas', (given) => {
  const { key, value = '' } = split(given, '=');
  return (labelKeyProblem(key) ?? labelValueProblem(value)) ? undefined : ([key, value] as const);
});

const EFFECTS = ['NoSchedule', 'PreferNoSchedule', 'NoExecute'];

/** Tolerated taints. Without a value all values of the key are tolerated, without an effect all effects. */
export const tolerations = listOf(
  'taints such as `dedicated=oscar:NoSchedule`, `dedicated:NoSchedule` or `dedicated`, separated by commas',
  (given) => {
    const { key: taint, value: effect } = split(given, ':');
    const { key, value } = split(taint, '=');
    if (labelKeyProblem(key) ?? labelValueProblem(value ?? '')) return undefined;
    if (effect !== undefined && !EFFECTS.includes(effect)) return undefined;
    const which = value === undefined ? { operator: 'Exists' } : { operator: 'Equal', value };
    return { key, ...which, ...(effect !== undefined && { effect }) };
  },
);

function split(text: string, separator: string): { readonly key: string; readonly value?: string } {
  const at = text.indexOf(separator);
  return at < 0 ? { key: text } : { key: text.slice(0, at), value: text.slice(at + 1) };
}
