/** One line of what the engine says while it pulls. Most are about one layer. */
export interface PullEvent {
  readonly status?: string;
  readonly id?: string;
  readonly progressDetail?: { readonly current?: number; readonly total?: number };
  readonly error?: string;
}

/** Coarse enough that a record changes some twenty times, whatever the size of the image. */
const STEP = 5;

const WAITING = new Set(['Pulling fs layer', 'Waiting']);
const HERE = new Set(['Verifying Checksum', 'Download complete', 'Extracting', 'Pull complete', 'Already exists']);

interface Layer {
  readonly share: number;
  readonly total?: number;
}

/** How much of an image has come. Layers of unknown size count like the mean of the others. */
export class PullProgress {
  readonly #layers = new Map<string, Layer>();
  #percent = 0;

  /** In steps; never goes back, though sizes of layers become known one by one. */
  take({ status = '', id, progressDetail }: PullEvent): number {
    const known = id === undefined ? undefined : this.#layers.get(id);
    const layer = id === undefined ? undefined : layerOf(status, progressDetail, known);
    if (id !== undefined && layer) this.#layers.set(id, layer);
    const percent = Math.floor((100 * this.#share()) / STEP) * STEP;
    this.#percent = Math.max(this.#percent, percent);
    return this.#percent;
  }

  #share(): number {
    const layers = [...this.#layers.values()];
    const sizes = layers.flatMap(({ total }) => total ?? []);
    const mean = sizes.reduce((sum, each) => sum + each, 0) / sizes.length || 1;
    const whole = layers.reduce((sum, { total = mean }) => sum + total, 0);
    return layers.reduce((sum, { share, total = mean }) => sum + share * total, 0) / (whole || 1);
  }
}

function layerOf(status: string, detail: PullEvent['progressDetail'], known: Layer | undefined): Layer | undefined {
  if (WAITING.has(status)) return known ?? { share: 0 };
  // Its figures are of the unpacked layer from now on.
  if (HERE.has(status)) return { ...known, share: 1 };
  if (status !== 'Downloading' || !detail?.total) return known;
  return { share: Math.min((detail.current ?? 0) / detail.total, 1), total: detail.total };
}
