export interface Taint {
  readonly key: string;
  readonly value?: string;
  readonly effect: string;
}

export interface Toleration {
  readonly key?: string;
  readonly operator?: string;
  readonly value?: string;
  readonly effect?: string;
}

/** Taints that keep pods which do not tolerate them away from a node. `PreferNoSchedule` is only a wish. */
export function repelling(taints: readonly Taint[] = [], tolerations: readonly Toleration[] = []): readonly Taint[] {
  return taints
    .filter(({ effect }) => effect === 'NoSchedule' || effect === 'NoExecute')
    .filter((taint) => !tolerations.some((toleration) => tolerates(toleration, taint)));
}

/**
 * Does it say how the node is at the moment (not ready, cordoned, short of memory), rather than for whom it is? Kubernetes
 * puts these on and takes them off by itself.
 */
export const isPassing = ({ key }: Taint) =>
  key.startsWith('node.kubernetes.io/') || key.startsWith('node.cloudprovider.kubernetes.io/');

function tolerates({ key = '', operator = 'Equal', value = '', effect = '' }: Toleration, taint: Taint): boolean {
  if (effect !== '' && effect !== taint.effect) return false;
  // Without a key it is for all of them, and then it must say `Exists`.
  if (key === '') return operator === 'Exists';
  if (key !== taint.key) return false;
  return operator === 'Exists' || (operator === 'Equal' && value === (taint.value ?? ''));
}
