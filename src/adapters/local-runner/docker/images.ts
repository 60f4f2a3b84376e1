import { LaunchError } from '../launcher.ts';
import { type Engine, EngineError, splitLines } from './engine.ts';

/** Shorter: a slow registry fails a pull that would succeed. Longer: a pull from a registry that hangs fails later. */
const SILENCE_MS = 300_000;

/** One pull, shared by all attempts that wait for the image. */
interface Pull {
  readonly done: Promise<void>;
  readonly reporters: Set<(message: string) => void>;
  readonly abandon: AbortController;
  message: string;
}

/** The images of the engine, by the names that services use. An image that is present is not pulled again. */
export class Images {
  readonly #engine: Engine;
  readonly #pulls = new Map<string, Pull>();

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /** Pulls the image if it is missing. */
  async ensure(image: string, report: (message: string) => void, signal: AbortSignal): Promise<void> {
    const reference = parseImageReference(image);
    if (!reference) {
      throw new LaunchError(
        'ImageFailed',
        `"${image}" is not the name of an image, such as ghcr.io/grycap/cowsay:latest`,
      );
    }
    if (await this.#isPresent(image, signal)) return;
    await this.#join(this.#pulls.get(image) ?? this.#startPull(image, reference), image, report, signal);
  }

  async #isPresent(image: string, signal: AbortSignal): Promise<boolean> {
    try {
      await this.#engine.request('GET', `/images/${image}/json`, { signal });
      return true;
    } catch (error) {
      if (error instanceof EngineError && error.code === 'absent') return false;
      throw error;
    }
  }

  #startPull(image: string, reference: ImageReference): Pull {
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
    // Also handles a rejection when no attempt waits any more.
    const forget = () => this.#forget(image, pull);
    void pull.done.then(forget, forget);
    return pull;
  }

  async #join(pull: Pull, image: string, report: (message: string) => void, signal: AbortSignal): Promise<void> {
    const aborted = Promise.withResolvers<never>();
    const onAbort = () => aborted.reject(signal.reason);
    signal.addEventListener('abort', onAbort);
    pull.reporters.add(report);
    try {
      signal.throwIfAborted();
      report(pull.message);
      await Promise.race([pull.done, aborted.promise]);
    } finally {
      signal.removeEventListener('abort', onAbort);
      pull.reporters.delete(report);
      if (pull.reporters.size === 0) {
        this.#forget(image, pull);
        pull.abandon.abort();
      }
    }
  }

  #forget(image: string, pull: Pull): void {
    if (this.#pulls.get(image) === pull) this.#pulls.delete(image);
  }

  async #pull(
    image: string,
    { name, version }: ImageReference,
    abandon: AbortController,
    report: (message: string) => void,
  ): Promise<void> {
    const progress = new PullProgress();
    const silence = setTimeout(() => abandon.abort(new Error(`no progress for ${SILENCE_MS / 1_000} s`)), SILENCE_MS);
    try {
      const call = { query: { fromImage: name, tag: version }, signal: abandon.signal, deadline: SILENCE_MS };
      const answer = await this.#engine.stream('POST', '/images/create', call);
      let reported = 0;
      for await (const line of splitLines(answer)) {
        silence.refresh();
        const event = JSON.parse(line) as PullEvent;
        if (event.error) throw new Error(event.error);
        const percent = progress.update(event);
        if (percent > reported) report(`pulling ${image}: ${percent} %`);
        reported = percent;
      }
      if (!(await this.#isPresent(image, abandon.signal)))
        throw new Error('the engine reported success, but has no such image');
    } catch (error) {
      if (error instanceof EngineError && error.code === 'unreachable') throw error;
      const reason = error instanceof Error ? error.message : String(error);
      throw new LaunchError('ImageFailed', `the image ${image} could not be pulled: ${reason}`, { cause: error });
    } finally {
      clearTimeout(silence);
    }
  }
}

/** One line of the engine's pull progress. Most lines are about one layer. */
export interface PullEvent {
  readonly status?: string;
  readonly id?: string;
  readonly progressDetail?: { readonly current?: number; readonly total?: number };
  readonly error?: string;
}

/** Percent. Smaller: progress is finer. Larger: fewer writes; with 5 a pull changes the job record at most twenty times. */
const STEP = 5;

const WAITING = new Set(['Pulling fs layer', 'Waiting']);
const DOWNLOADED = new Set([
  'Verifying Checksum',
  'Download complete',
  'Extracting',
  'Pull complete',
  'Already exists',
]);

interface Layer {
  readonly share: number;
  readonly total?: number;
}

/** Computes the downloaded share of an image. Layers of unknown size count as the mean of the others. */
export class PullProgress {
  readonly #layers = new Map<string, Layer>();
  #percent = 0;

  /** Returns a multiple of {@link STEP} that never falls, although the sizes of layers become known one by one. */
  update({ status = '', id, progressDetail }: PullEvent): number {
    const known = id === undefined ? undefined : this.#layers.get(id);
    const layer = id === undefined ? undefined : updateLayer(status, progressDetail, known);
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

function updateLayer(status: string, detail: PullEvent['progressDetail'], known: Layer | undefined): Layer | undefined {
  if (WAITING.has(status)) return known ?? { share: 0 };
  // From now on the engine's figures are those of the unpacked layer.
  if (DOWNLOADED.has(status)) return { ...known, share: 1 };
  if (status !== 'Downloading' || !detail?.total) return known;
  return { share: Math.min((detail.current ?? 0) / detail.total, 1), total: detail.total };
}

interface ImageReference {
  readonly name: string;
  /** A tag, or a digest such as `sha256:…`. */
  readonly version: string;
}

const HOST = String.raw`(?:[a-zA-Z0-9][a-zA-Z0-9.-]*(?::\d+)?\/)?`;
const PART = String.raw`[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*`;
const TAG = String.raw`\w[\w.-]{0,127}`;
const DIGEST = '[a-z0-9]+:[0-9a-f]{32,}';
const REFERENCE = new RegExp(`^(?<name>${HOST}${PART}(?:/${PART})*)(?::(?<tag>${TAG}))?(?:@(?<digest>${DIGEST}))?$`);

/** Undefined if the name is invalid. The default tag is `latest`, because the Engine API would pull all tags without one. */
export function parseImageReference(image: string): ImageReference | undefined {
  const { name, tag, digest } = REFERENCE.exec(image)?.groups ?? {};
  return name === undefined ? undefined : { name, version: digest ?? tag ?? 'latest' };
}
