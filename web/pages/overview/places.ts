/** Where the clusters are drawn. */
export interface Point {
  readonly x: number;
  readonly y: number;
}

/** The size of a card, and the space between cards, so that their links can be seen. */
export interface CardSize {
  readonly width: number;
  readonly height: number;
  readonly gap: number;
}

export const CARD: CardSize = { width: 200, height: 124, gap: 60 };

/** For many clusters: the name, the CPU and the state. */
export const SMALL_CARD: CardSize = { width: 132, height: 46, gap: 26 };

/** From this many clusters on, cards are small. */
export const MANY = 16;

/** Rings are wider than high, as screens are. */
const STRETCH = { x: 1.5, y: 0.85 };

/** The first cluster is in the middle, the others on rings around it, as many on each as fit. */
export function placeClusters(ids: readonly string[], { width, gap }: CardSize = CARD): Map<string, Point> {
  const [first, ...rest] = ids;
  const places = new Map<string, Point>();
  if (first !== undefined) places.set(first, { x: 0, y: 0 });
  let start = 0;
  for (let ring = 1; start < rest.length; ring++) {
    const radius = ring * (width + gap);
    const fits = Math.floor((2 * Math.PI * radius * STRETCH.y) / (width + gap));
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
