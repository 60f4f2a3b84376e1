import type { KnativeSettings } from '../../adapters/kubernetes/index.ts';
import type { Config } from '../../config/index.ts';
import { ownAuthorities } from './authorities.ts';

/** Knative refuses longer calls, unless its operator says otherwise (`max-revision-timeout-seconds`). */
const LONGEST_CALL_SECONDS = 600;

/** How services stand beside Knative: as jobs stand in pods, and for as long as anybody waits for an answer. */
export function knativeSettings(config: Config, tell: (problem: string) => void): KnativeSettings {
  return {
    // Whoever passes the checks of the settings has it.
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
