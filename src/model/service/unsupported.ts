import type { Definition } from './service.ts';

/**
 * Blocks of the definition that are parsed, but not implemented yet. A service that uses one is rejected, because accepting
 * it and ignoring the block would be worse. Inactive forms, which clients always send, are accepted.
 */
export function findUnsupported(definition: Definition): string[] {
  const { volume, mount, expose, kserve, interlink_node_name, total_cpu, total_memory } = definition;
  const storages = [...definition.input, ...definition.output].map(({ storage_provider }) => storage_provider);
  const used: [string, boolean][] = [
    ['volume', volume !== undefined],
    ['mount', mount.storage_provider !== '' || mount.path !== ''],
    ['expose', (expose.api_port?.[0] ?? 0) !== 0],
    ['kserve', kserve !== undefined],
    ['interlink_node_name', interlink_node_name !== ''],
    ['total_cpu', total_cpu !== ''],
    ['total_memory', total_memory !== ''],
    ['the storage provider type onedata', storages.some((provider) => /^onedata(\.|$)/i.test(provider))],
    ['the storage provider type rucio', storages.some((provider) => /^rucio(\.|$)/i.test(provider))],
  ];
  return used.filter(([, active]) => active).map(([block]) => block);
}
