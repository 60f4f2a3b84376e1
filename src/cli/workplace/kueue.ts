import type { KueueSettings } from '../../cluster/kubernetes/index.ts';
import type { Config } from '../../config.ts';

/** The quota that each user gets at first. */
export function kueueSettings(config: Config): KueueSettings {
  return {
    flavor: config.kueueFlavor,
    millicores: config.kueueCpuMillicores,
    memoryBytes: config.kueueMemoryBytes,
    gpus: config.kueueGpus,
    ephemeralBytes: config.kueueEphemeralBytes,
  };
}
