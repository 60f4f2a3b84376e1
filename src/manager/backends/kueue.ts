import type { KueueSettings } from '../../adapters/kubernetes/index.ts';
import type { Config } from '../../config/index.ts';

/** The initial quota of each user. */
export function kueueSettings(config: Config): KueueSettings {
  return {
    flavor: config.kueueFlavor,
    millicores: config.kueueCpuMillicores,
    memoryBytes: config.kueueMemoryBytes,
    gpus: config.kueueGpus,
    ephemeralBytes: config.kueueEphemeralBytes,
  };
}
