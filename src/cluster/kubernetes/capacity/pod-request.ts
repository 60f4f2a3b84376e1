import type { Demand } from '../../job-record.ts';
import { larger, NOTHING, sum } from './amounts.ts';
import { demandOf, type Quantities } from './quantities.ts';

interface Resources {
  readonly requests?: Quantities;
}

export interface Container {
  readonly resources?: Resources;
  /** `Always` on an init container: a sidecar, which goes on beside the others. */
  readonly restartPolicy?: string;
}

export interface PodSpec {
  readonly nodeName?: string;
  readonly containers?: readonly Container[];
  readonly initContainers?: readonly Container[];
  /** What the runtime itself takes. */
  readonly overhead?: Quantities;
  /** Of the whole pod. What it names counts in place of the containers'. */
  readonly resources?: Resources;
}

/**
 * What a pod takes of its node, as the scheduler counts it: its containers together with the sidecars, or an init
 * container with the sidecars that are up by then, whichever is more.
 */
export function requestOf({ containers = [], initContainers = [], overhead, resources }: PodSpec): Demand {
  let sidecars = NOTHING;
  let most = NOTHING;
  for (const container of initContainers) {
    const beside = sum(sidecars, asked(container));
    if (container.restartPolicy === 'Always') sidecars = beside;
    most = larger(most, beside);
  }
  const together = larger(most, containers.map(asked).reduce(sum, sidecars));
  const { cpu, memory } = resources?.requests ?? {};
  const whole = demandOf(resources?.requests);
  const counted = {
    ...together,
    ...(cpu !== undefined && { cpu: whole.cpu }),
    ...(memory !== undefined && { memory: whole.memory }),
  };
  return overhead ? sum(counted, demandOf(overhead)) : counted;
}

const asked = ({ resources }: Container) => demandOf(resources?.requests);
