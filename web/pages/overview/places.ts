/** Where the clusters are drawn. */
export interface Point {
  readonly x: number;
  readonly y: number;
}

export const CARD = { width: 190, height: 96 };

/** Space between cards, so that their links can be seen. */
const GAP = 50;

/** Rings are wider than high, as screens are. */
const STRETCH = { x: 1.5, y: 0.85 };

/** The first cluster is in the middle, the others on rings around it, as many on each as fit. */
export function placeClusters(ids: readonly string[]): Map<string, Point> {
  const [first, ...rest] = ids;
  const places = new Map<string, Point>();
  if (first !== undefined) places.set(first, { x: 0, y: 0 });
  let start = 0;
  for (let ring = 1; start < rest.length; ring++) {
    const radius = ring * (CARD.width + GAP);
    const fits = Math.floor((2 * Math.PI * radius * STRETCH.y) / (CARD.width + GAP));
    const onRing = rest.slice(start, start + fits);
    for (const [index, id] of onRing.entries()) {
      // Two clusters stand left and right, so that the picture stays flat.
      const angle = (index / onRing.length) * 2 * Math.PI - (onRing.length > 2 ? Math.PI / 2 : 0);
      places.set(id, { x: Math.cos(angle) * radius * STRETCH.x, y: Math.sin(angle) * radius * STRETCH.y });
    }
    start += fits;
  }
  return places;
}
