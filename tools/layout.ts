/** The folders that the page of the layout has to name. */
export interface Folders {
  /** At the top of the repository. */
  readonly repository: readonly string[];
  /** Directly below `src`. */
  readonly src: readonly string[];
}

/** Where the block under the heading "Layout" of a page and the folders differ, as sentences. */
export function layoutProblems(page: string, folders: Folders): string[] {
  const block = /^## Layout$[^#]*?^```\w*$(?<block>.*?)^```$/ms.exec(page)?.groups?.['block'];
  if (block === undefined) return ['there is no block of folders under the heading "Layout"'];
  const named = readBlock(block);
  return [...differences('', named.repository, folders.repository), ...differences('src/', named.src, folders.src)];
}

/** A folder begins a line: without indentation one of the repository, with two spaces one of the folder above. */
function readBlock(block: string): Folders {
  const repository: string[] = [];
  const src: string[] = [];
  for (const { groups } of block.matchAll(/^(?<indent> {2})?(?<folder>[\w.-]+)\/(?:\s|$)/gm)) {
    const folder = groups?.['folder'] ?? '';
    if (groups?.['indent'] === undefined) repository.push(folder);
    else if (repository.at(-1) === 'src') src.push(folder);
  }
  return { repository, src };
}

function differences(above: string, named: readonly string[], there: readonly string[]): string[] {
  return [
    ...there.filter((folder) => !named.includes(folder)).map((folder) => `${above}${folder}/ is not named`),
    ...named.filter((folder) => !there.includes(folder)).map((folder) => `${above}${folder}/ does not exist`),
    ...named
      .filter((folder, index) => named.indexOf(folder) !== index)
      .map((folder) => `${above}${folder}/ is named more than once`),
  ];
}
