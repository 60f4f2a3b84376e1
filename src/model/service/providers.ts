import type { Problem } from './codec.ts';
import { DEFAULT_PROVIDER_ID, isClusterStore, parseProvider } from './paths.ts';
import type { StorageProviders } from './schema.ts';
import type { Definition } from './service.ts';

/** The stores that a definition may use in addition to its own providers. */
export interface KnownStores {
  /** Providers that the operator defined, such as `minio.shared`. */
  readonly named: ReadonlySet<string>;
  /** Address of the cluster's own store. */
  readonly endpoint: string;
}

const INPUT_TYPES = ['minio', 'webdav', 'rucio'];

/** Problems with the providers of inputs and outputs (docs/fdl.md#inputs-and-outputs). */
export function providerProblems(definition: Definition, known: KnownStores): Problem[] {
  const problems: Problem[] = [];
  for (const [index, io] of definition.input.entries()) {
    const path = `input[${index}].storage_provider`;
    const provider = parseProvider(io.storage_provider);
    const { type, id } = provider;
    if (!INPUT_TYPES.includes(type)) {
      problems.push({ path, message: `${type} cannot be an input: files arrive through ${INPUT_TYPES.join(', ')}` });
    } else if (type === 'minio' && !isClusterStore(provider)) {
      // Only the cluster's own store sends events. A provider with another id but the same endpoint is that store.
      if (definition.storage_providers?.minio?.[id]?.endpoint !== known.endpoint) {
        problems.push({ path, message: `minio.${id} is not the store of this cluster: use minio.default` });
      }
    } else if (!isDefined(provider, definition.storage_providers, known))
      problems.push({ path, message: unknown(provider) });
  }
  for (const [index, io] of definition.output.entries()) {
    const provider = parseProvider(io.storage_provider);
    if (isDefined(provider, definition.storage_providers, known)) continue;
    problems.push({ path: `output[${index}].storage_provider`, message: unknown(provider) });
  }
  return problems;
}

function isDefined(
  provider: { type: string; id: string },
  providers: StorageProviders | undefined,
  known: KnownStores,
): boolean {
  if (isClusterStore(provider) || known.named.has(`${provider.type}.${provider.id}`)) return true;
  const byId = providers?.[provider.type as keyof StorageProviders];
  return byId !== undefined && Object.hasOwn(byId, provider.id);
}

function unknown({ type, id }: { type: string; id: string }): string {
  return `${type}.${id} is not defined: add it to storage_providers, or ask the operator for the providers of this cluster`;
}

/** Drops `minio.default`, which is always the cluster's own store, whatever a client sends (F47). */
export function withoutClusterStore(providers: StorageProviders | undefined): StorageProviders | undefined {
  if (!providers) return undefined;
  const { minio, ...others } = providers;
  const named = Object.fromEntries(Object.entries(minio ?? {}).filter(([id]) => id !== DEFAULT_PROVIDER_ID));
  const kept = { ...others, ...(Object.keys(named).length > 0 && { minio: named }) };
  return Object.keys(kept).length > 0 ? kept : undefined;
}
