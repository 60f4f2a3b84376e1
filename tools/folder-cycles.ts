/** An import that leads from one folder to another. */
export interface Edge {
  readonly file: string;
  readonly specifier: string;
  readonly from: string;
  readonly to: string;
}

/** Ways that lead from a folder back to it, each the shortest there is and each set of folders once. */
export function folderCycles(edges: readonly Edge[]): Edge[][] {
  const leaving = Map.groupBy(
    edges.filter(({ from, to }) => from !== to),
    ({ from }) => from,
  );
  const cycles = new Map<string, Edge[]>();
  for (const folder of leaving.keys()) {
    const cycle = shortestWayBack(folder, leaving);
    if (!cycle) continue;
    const members = cycle
      .map(({ from }) => from)
      .toSorted()
      .join(' ');
    if (!cycles.has(members)) cycles.set(members, cycle);
  }
  return [...cycles.values()];
}

/** Breadth first, so that the first way found is a shortest one. */
function shortestWayBack(start: string, leaving: ReadonlyMap<string, readonly Edge[]>): Edge[] | undefined {
  const seen = new Set<string>();
  let ways: Edge[][] = [[]];
  while (ways.length > 0) {
    const further: Edge[][] = [];
    for (const way of ways) {
      for (const edge of leaving.get(way.at(-1)?.to ?? start) ?? []) {
        if (edge.to === start) return [...way, edge];
        if (seen.has(edge.to)) continue;
        seen.add(edge.to);
        further.push([...way, edge]);
      }
    }
    ways = further;
  }
  return undefined;
}
