import type { Problem } from './codec.ts';
import { isClusterInput, isClusterStore, parseProvider } from './paths.ts';
import type { Definition } from './service.ts';

/** Says that a service means to start itself with its own results. */
const OPT_IN = 'oscar-manager/allow-loop';

/** A result that lands under an input of the same service would start it again, and again. */
export function loopProblems({ input, output, annotations }: Definition): Problem[] {
  if (annotations[OPT_IN] === 'true') return [];
  const watched = input.filter(isClusterInput).map(({ path }) => `${path}/`);
  return output.flatMap(({ storage_provider, path }, index) => {
    const under =
      isClusterStore(parseProvider(storage_provider)) && watched.find((prefix) => `${path}/`.startsWith(prefix));
    if (!under) return [];
    const message = `lies under the input ${under.slice(0, -1)}, so that each result would start the service again: choose another folder, or set the annotation ${OPT_IN} to "true" if you mean it`;
    return [{ path: `output[${index}].path`, message }];
  });
}
