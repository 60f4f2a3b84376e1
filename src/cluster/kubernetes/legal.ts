import { labelKeyProblem, labelValueProblem } from '../../service/names.ts';

type Words = Readonly<Record<string, string>>;

/** Those that Kubernetes takes. Whatever is stored must not keep a service from being made, or a job from running. */
export const legalLabels = (labels: Words): Record<string, string> => legal(labels, labelValueProblem);

export const legalAnnotations = (annotations: Words): Record<string, string> => legal(annotations, () => undefined);

function legal(words: Words, valueProblem: (value: string) => string | undefined): Record<string, string> {
  return Object.fromEntries(
    Object.entries(words).filter(([key, value]) => (labelKeyProblem(key) ?? valueProblem(value)) === undefined),
  );
}
