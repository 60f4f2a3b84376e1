import type { KnativeSettings } from '../../adapters/kubernetes/index.ts';
import type { Config } from '../../config/index.ts';
import { ownAuthorities } from './authorities.ts';

/** Knative rejects longer timeouts by default (`max-revision-timeout-seconds`). */
const LONGEST_CALL_SECONDS = 600;

/** Settings for Knative: the same pod settings as for jobs, and the timeout of synchronous invocations. */
export function knativeSettings(config: Config, tell: (problem: string) => void): KnativeSettings {
  return {
    // The checks of the settings ensure that it is set.
    image: config.stagingImage ?? '',
    pullPolicy: config.stagingPullPolicy,
    ...ownAuthorities(tell),
    scriptPullPolicy: config.imagePullPolicy,
    resources: {
      requests: { cpu: `${config.stagingCpuMillicores}m`, memory: String(config.stagingMemoryBytes) },
      limits: { memory: String(config.stagingMemoryLimitBytes) },
    },
    diskBytes: config.podDiskBytes,
    nonRoot: config.podNonRoot,
    nodeSelector: Object.fromEntries(config.podNodeSelector),
    tolerations: config.podTolerations,
    timeoutSeconds: Math.min(config.writeTimeoutSeconds, LONGEST_CALL_SECONDS),
  };
}
