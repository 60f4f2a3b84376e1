import { OWN_STORE, type ReadableFile } from '../../../jobs/index.ts';
import { isClusterStore, parseProvider, type Service } from '../../../service/index.ts';

/**
 * Why a job is not given to another cluster, as a sentence; undefined when it may be. Keys of providers never leave the
 * manager that holds them (design §5), so whatever needs one runs here: a file that lies elsewhere, or a script that gets
 * its input itself.
 */
export function whyHere(
  { definition }: Pick<Service, 'definition'>,
  file: ReadableFile | undefined,
): string | undefined {
  if (definition.file_stage_in) {
    const foreign = definition.input
      .map(({ storage_provider }) => storage_provider)
      .find((id) => !isClusterStore(parseProvider(id)));
    return foreign === undefined ? undefined : keptHere(`its script gets its input from ${foreign}`);
  }
  return file === undefined || file.store === OWN_STORE ? undefined : keptHere(`its input is at ${file.store}`);
}

const keptHere = (because: string) => `it runs on this cluster alone: ${because}, and the keys for that stay here`;
