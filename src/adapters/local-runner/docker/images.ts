import { LaunchError } from '../launcher.ts';
import { dockerLines, type Engine, EngineError } from './engine.ts';

/** A registry that has sent nothing for this long will not: slower lines than that get nowhere either. */
const SILENCE_MS = 300_000;

/** One pull, for everybody who waits for that image. */
interface Pull {
  readonly done: Promise<void>;
  readonly reporters: Set<(message: string) => void>;
  readonly abandon: AbortController;
  message: string;
}

/** The images of the engine, as services name them. One that is there is taken as it is. */
export class Images {
  readonly #engine: Engine;
  readonly #pulls = new Map<string, Pull>();

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** Pulls it if it is not there. */
  async ensure(image: string, report: (message: string) => void, signal: AbortSignal): Promise<void> {
    const reference = readReference(image);
    if (!reference) {
      throw new LaunchError(
        'ImageFailed',
        `"${image}" is not the name of an image, as ghcr.io/grycap/cowsay:latest is`,
      );
    }
    if (await this.#isHere(image, signal)) return;
    await this.#join(this.#pulls.get(image) ?? this.#begin(image, reference), image, report, signal);
  }

  async #isHere(image: string, signal: AbortSignal): Promise<boolean> {
    try {
      await this.#engine.ask('GET', `/images/${image}/json`, { signal });
      return true;
    } catch (error) {
      if (error instanceof EngineError && error.code === 'absent') return false;
      throw error;
    }
  }

  #begin(image: string, reference: ImageReference): Pull {
    const abandon = new AbortController();
    const pull: Pull = {
      done: this.#pull(image, reference, abandon, (message) => {
        pull.message = message;
        for (const report of pull.reporters) report(message);
      }),
      reporters: new Set(),
      abandon,
      message: `pulling ${image}`,
    };
    this.#pulls.set(image, pull);
    // Whoever waits is told; maybe nobody does any more.
    const over = () => this.#over(image, pull);
    void pull.done.then(over, over);
    return pull;
  }

  async #join(pull: Pull, image: string, report: (message: string) => void, signal: AbortSignal): Promise<void> {
    const left = Promise.withResolvers<never>();
    const leave = () => left.reject(signal.reason);
    signal.addEventListener('abort', leave);
    pull.reporters.add(report);
    try {
      signal.throwIfAborted();
      report(pull.message);
      await Promise.race([pull.done, left.promise]);
    } finally {
      signal.removeEventListener('abort', leave);
      pull.reporters.delete(report);
      if (pull.reporters.size === 0) {
        this.#over(image, pull);
        pull.abandon.abort();
      }
    }
  }

  #over(image: string, pull: Pull): void {
    if (this.#pulls.get(image) === pull) this.#pulls.delete(image);
  }

  async #pull(
    image: string,
    { name, version }: ImageReference,
    abandon: AbortController,
    report: (message: string) => void,
  ): Promise<void> {
    const progress = new PullProgress();
    const silence = setTimeout(() => abandon.abort(new Error('the registry has gone silent')), SILENCE_MS);
    try {
      const call = { query: { fromImage: name, tag: version }, signal: abandon.signal, deadline: SILENCE_MS };
      const answer = await this.#engine.stream('POST', '/images/create', call);
      let said = 0;
      for await (const line of dockerLines(answer)) {
        silence.refresh();
        const event = JSON.parse(line) as PullEvent;
        if (event.error) throw new Error(event.error);
        const percent = progress.take(event);
        if (percent > said) report(`pulling ${image}: ${percent} %`);
        said = percent;
      }
      if (!(await this.#isHere(image, abandon.signal))) throw new Error('the engine does not have it afterwards');
    } catch (error) {
      if (error instanceof EngineError && error.code === 'unreachable') throw error;
      const words = error instanceof Error ? error.message : String(error);
      throw new LaunchError('ImageFailed', `the image ${image} could not be pulled: ${words}`, { cause: error });
    } finally {
      clearTimeout(silence);
    }
  }
}

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

/** What is asked of a registry. */
interface ImageReference {
  readonly name: string;
  /** A tag, or a digest as `sha256:…`. */
  readonly version: string;
}

const HOST = String.raw`(?:[a-zA-Z0-9][a-zA-Z0-9.-]*(?::\d+)?\/)?`;
const PART = String.raw`[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*`;
const TAG = String.raw`\w[\w.-]{0,127}`;
const DIGEST = '[a-z0-9]+:[0-9a-f]{32,}';
const REFERENCE = new RegExp(`^(?<name>${HOST}${PART}(?:/${PART})*)(?::(?<tag>${TAG}))?(?:@(?<digest>${DIGEST}))?$`);

/** Undefined if no registry can have such an image. Without a tag it is `latest`: the API would fetch all of them. */
export function readReference(image: string): ImageReference | undefined {
  const { name, tag, digest } = REFERENCE.exec(image)?.groups ?? {};
  return name === undefined ? undefined : { name, version: digest ?? tag ?? 'latest' };
}
