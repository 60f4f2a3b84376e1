import { LaunchError } from '../../launcher.ts';
import { type Engine, EngineError } from '../engine/engine.ts';
import { linesOf } from '../engine/lines.ts';
import { type PullEvent, PullProgress } from './pull-progress.ts';
import { type ImageReference, readReference } from './reference.ts';

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
      for await (const line of linesOf(answer)) {
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
